package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// Readiness is an optional method of a channel: while it returns an error nothing is dispatched to the channel, and it is not
// asked what became of anything: an adapter that is down knows nothing, which is no finding.
type Readiness interface{ Ready() error }

// outlet is one channel as the engine drives it.
type outlet struct {
	name    string
	channel channel.Channel
	sheet   channel.Sheet
	policy  Policy // its Concurrency is only where slots begins
	wake    broadcast
	slots   slots
	sending atomic.Int64         // sends under way now
	looking atomic.Pointer[loop] // its reconciler, while it runs

	approvalRequired atomic.Bool
	rate             atomic.Int64 // shared by all engines, per minute, as the ledger had it last; 0: none
}

func newOutlet(c ChannelOptions) *outlet {
	sheet, _ := c.sheet()
	out := &outlet{name: c.Name, channel: c.Channel, sheet: sheet, policy: c.Policy.withDefaults(sheet)}
	out.slots.most = out.policy.Concurrency
	out.approvalRequired.Store(c.ApprovalRequired)
	out.rate.Store(int64(cmp.Or(c.RatePerMinute, sheet.RatePerMinute)))
	return out
}

func (o *outlet) ready() bool {
	r, ok := o.channel.(Readiness)
	return !ok || r.Ready() == nil
}

// outlets are the channels of an engine, and what a running one needs to begin with another.
type outlets struct {
	mu     sync.RWMutex
	byName map[string]*outlet
	run    *run // nil: not running, or stopping
}

// run is what the workers of a running engine share.
type run struct {
	stop, hard context.Context
	workers    *sync.WaitGroup
}

func (o *outlets) get(name string) *outlet {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.byName[name]
}

// all returns the channels in order of their names.
func (o *outlets) all() []*outlet {
	o.mu.RLock()
	defer o.mu.RUnlock()
	list := make([]*outlet, 0, len(o.byName))
	for _, name := range slices.Sorted(maps.Keys(o.byName)) {
		list = append(list, o.byName[name])
	}
	return list
}

func (o *outlets) names() (names []string) {
	for _, out := range o.all() {
		names = append(names, out.name)
	}
	return names
}

// Channels returns the names of the channels that the engine drives, in order.
func (e *Engine) Channels() []string { return e.channels.names() }

// InFlight is how many sends of the channel are under way in this engine now.
func (e *Engine) InFlight(channelName string) int {
	out := e.channels.get(channelName)
	if out == nil {
		return 0
	}
	return int(out.sending.Load())
}

// Add gives the engine another channel: it is checked as by [New] ([*ConfigError]) and stored in the ledger, and if the engine runs
// its dispatcher and reconciler begin at once. It is for a channel whose adapter could not be started when the engine was.
func (e *Engine) Add(ctx context.Context, c ChannelOptions) error {
	fault := c.validate(e.options.ClockAllowance)
	if fault == nil && e.channels.get(c.Name) != nil {
		fault = fmt.Errorf("channel %s: is configured twice", c.Name)
	}
	if fault != nil {
		return &ConfigError{fault}
	}
	if err := e.store(ctx, c); err != nil {
		return err
	}
	e.measure.begin(ctx, c.Name)
	out := newOutlet(c)
	e.channels.mu.Lock()
	defer e.channels.mu.Unlock()
	if e.channels.byName[c.Name] != nil {
		return &ConfigError{fmt.Errorf("channel %s: is configured twice", c.Name)}
	}
	e.channels.byName[c.Name] = out
	if e.channels.run != nil {
		e.work(e.channels.run, out)
	}
	return nil
}

// store writes the channel into the ledger, as it counts.
func (e *Engine) store(ctx context.Context, c ChannelOptions) error {
	sheet, _ := c.sheet()
	row := ledger.ChannelRow{Name: c.Name, Kind: sheet.Kind, Sheet: sheet, Flag: c.Flag, ApprovalRequired: c.ApprovalRequired, RatePerMinute: c.RatePerMinute}
	if row.Flag == "" {
		row.Flag = ledger.FlagOn
	}
	if row.RatePerMinute == 0 {
		row.RatePerMinute = sheet.RatePerMinute
	}
	if err := e.ledger.PutChannel(ctx, row); err != nil {
		return fmt.Errorf("store channel %s: %w", c.Name, err)
	}
	return nil
}

// work begins with a channel: its dispatcher, and a reconciler of its own, so that an outside system that does not answer delays
// no other one's.
func (e *Engine) work(r *run, out *outlet) {
	r.workers.Go(func() { e.dispatch(r.stop, r.hard, out) })
	r.workers.Go(func() { e.reconcile(r.stop, r.hard, out) })
}

// begin starts the work on all channels, and on those that are added until stop ends.
func (e *Engine) begin(stop, hard context.Context, workers *sync.WaitGroup) {
	e.channels.mu.Lock()
	defer e.channels.mu.Unlock()
	e.channels.run = &run{stop, hard, workers}
	for _, out := range e.channels.byName {
		e.work(e.channels.run, out)
	}
	workers.Go(func() { // as long as this one runs, nobody has stopped waiting for the workers
		<-stop.Done()
		e.channels.mu.Lock()
		defer e.channels.mu.Unlock()
		e.channels.run = nil
	})
}

// errNoChannel says that the engine does not drive the channel.
func errNoChannel(name string) error {
	return fmt.Errorf("channel %s: %w", name, ErrNotConfigured)
}

// ErrNotConfigured says that this engine does not drive the channel.
var ErrNotConfigured = errors.New("is not configured in this engine")
