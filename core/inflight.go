package core

import (
	"sync"

	"github.com/pawlworks/pawl/ledger"
)

// inflight holds what this engine is sending or probing now, so that it never reconciles its own work.
type inflight struct {
	mu   sync.Mutex
	keys map[ledger.Key]struct{}
}

// enter reports whether the key was free, and takes it.
func (f *inflight) enter(k ledger.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.keys[k]; ok {
		return false
	}
	if f.keys == nil {
		f.keys = map[ledger.Key]struct{}{}
	}
	f.keys[k] = struct{}{}
	return true
}

func (f *inflight) leave(k ledger.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, k)
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
