package core

import (
	"sync"

	"github.com/pawlworks/pawl/ledger"
)

// inflight holds what this engine is sending or probing now, so that it never reconciles its own work.
type inflight struct {
	mu   sync.Mutex
	keys map[ledger.Key]int // how many are at it: a send may begin before the look that set it going is over
}

// enter reports whether the key was free, and takes it.
func (f *inflight) enter(k ledger.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[k] > 0 {
		return false
	}
	f.take(k)
	return true
}

// join takes the key whoever has it: the ledger gave it to us.
func (f *inflight) join(k ledger.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.take(k)
}

func (f *inflight) take(k ledger.Key) {
	if f.keys == nil {
		f.keys = map[ledger.Key]int{}
	}
	f.keys[k]++
}

// leave ends one enter or join.
func (f *inflight) leave(k ledger.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[k]--; f.keys[k] <= 0 {
		delete(f.keys, k)
	}
}

// broadcast wakes everybody who waits. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed at the next wakeAll. Take it before looking, so that nothing is missed.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
