package core

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loopSlack is what a loop may take longer than the sum of its own bounds before it counts as stuck.
const loopSlack = time.Minute

// Pulse is what an engine is doing now, for whoever watches over the process.
type Pulse struct {
	Running  bool
	Stopping bool      // takes nothing more, and waits for what is under way
	LastBeat time.Time // when the ledger took the last heartbeat, on this host's clock; zero before the first one
	Loops    []Loop    // those that run now, in order of name and channel
}

// Loop is one of an engine's loops.
type Loop struct {
	Name    string        // dispatch, reconcile, heartbeat or keep
	Channel string        // of dispatch and reconcile
	Silent  time.Duration // since it made progress: a round, a send or look that ended, a try to write
	Bound   time.Duration // the longest silence that its time-outs allow
}

// Stuck reports whether the loop is silent for longer than all its time-outs together. A ledger that does not answer makes no loop stuck:
// it is tried again and again, and that is progress.
func (l Loop) Stuck() bool { return l.Silent > l.Bound }

// Pulse reads what the engine is doing. It waits for nothing.
func (e *Engine) Pulse() Pulse {
	p := Pulse{LastBeat: e.LastBeat()}
	tried := e.vital.tried.Load()
	e.vital.mu.Lock()
	defer e.vital.mu.Unlock()
	p.Running, p.Stopping = e.vital.running, e.vital.stopping
	for l := range e.vital.loops {
		silent := time.Since(*l.last.Load())
		if tried != nil {
			silent = min(silent, time.Since(*tried))
		}
		p.Loops = append(p.Loops, Loop{Name: l.name, Channel: l.channel, Silent: max(0, silent), Bound: l.bound})
	}
	slices.SortFunc(p.Loops, func(a, b Loop) int { return strings.Compare(a.Name+" "+a.Channel, b.Name+" "+b.Channel) })
	return p
}

// vital is what [Pulse] reads.
type vital struct {
	tried             atomic.Pointer[time.Time] // when the ledger failed last to take what must be written
	mu                sync.Mutex
	running, stopping bool
	loops             map[*loop]struct{}
}

func (v *vital) set(running, stopping bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running, v.stopping = running, stopping
}

// retry notes that the ledger did not take what must be written, and that it is tried again: whoever waits for the ledger is not stuck.
func (v *vital) retry() {
	now := time.Now()
	v.tried.Store(&now)
}

// loop is one running loop. Its methods may be called from any goroutine, and on nil.
type loop struct {
	name, channel string
	bound         time.Duration
	last          atomic.Pointer[time.Time]
}

// enter begins a loop; leave ends it.
func (v *vital) enter(name, channelName string, bound time.Duration) *loop {
	l := &loop{name: name, channel: channelName, bound: bound + loopSlack}
	l.progress()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loops == nil {
		v.loops = map[*loop]struct{}{}
	}
	v.loops[l] = struct{}{}
	return l
}

func (v *vital) leave(l *loop) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.loops, l)
}

func (l *loop) progress() {
	if l == nil {
		return
	}
	now := time.Now()
	l.last.Store(&now)
}
