package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Engine sends what a ledger holds. Make one with [New]; it is safe for concurrent use.
type Engine struct {
	options  Options
	ledger   ledger.Ledger
	log      *slog.Logger
	channels outlets
	inflight inflight
	settled  broadcast // something ended; waiters look again
	schemas  ledger.Schemas
	measure  measure

	running  sync.Mutex
	lastBeat atomic.Pointer[time.Time]
	vital    vital
	keeping  atomic.Pointer[loop] // the keeper, while it runs
}

// New checks the whole configuration, with every fault in one [*ConfigError], and stores the channels' sheets in the ledger.
func New(ctx context.Context, o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	measure, err := newMeasure(o)
	if err != nil {
		return nil, err
	}
	e := &Engine{options: o, ledger: o.Ledger, log: o.Logger.With("instance", o.Instance), measure: measure}
	e.channels.byName = map[string]*outlet{}
	measure.beginAll(ctx)
	for _, c := range o.Channels {
		if err := e.store(ctx, c); err != nil {
			return nil, err
		}
		measure.begin(ctx, c.Name)
		e.channels.byName[c.Name] = newOutlet(c)
	}
	return e, nil
}

// Instance is the engine's name in fences and heartbeats.
func (e *Engine) Instance() string { return e.options.Instance }

// LastBeat is when the ledger took the engine's last heartbeat, on this host's clock; zero before the first one.
func (e *Engine) LastBeat() time.Time {
	if t := e.lastBeat.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Run dispatches and reconciles until ctx ends, then stops in two steps: it takes nothing more and lets sends under way
// finish; after Options.StopGrace it cancels them (what was not stamped is given back, the rest is reconciled by
// whoever comes next). It returns nil after a stop. An engine runs once at a time.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.TryLock() {
		return errors.New("this engine is running already")
	}
	defer e.running.Unlock()
	e.vital.set(true, false)
	defer e.vital.set(false, false)
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var stopper sync.WaitGroup
	stopper.Go(func() { e.stopHard(ctx, hard, cancel) })
	defer stopper.Wait()
	defer cancel()

	started := e.started()
	if err := e.beat(ctx, started, false); err != nil && ctx.Err() == nil {
		return fmt.Errorf("first heartbeat: %w", err)
	}
	e.log.Info(EventStarted, "channels", e.channels.names(), "ledger", e.ledger.ID())
	var workers, keeper sync.WaitGroup
	e.begin(ctx, hard, &workers)
	beatCtx, endBeat := context.WithCancel(hard)
	keeper.Go(func() { e.heartbeat(beatCtx, started) }) // beats until the last send has ended
	keeper.Go(func() { e.keep(ctx) })
	workers.Wait()
	endBeat()
	keeper.Wait()
	last, end := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer end()
	if err := e.beat(last, started, true); err != nil {
		e.log.Warn(EventLedger, "doing", "last heartbeat", "error", err)
	}
	e.log.Info(EventStopped)
	return nil
}

// stopHard cancels the sends under way a grace after the stop.
func (e *Engine) stopHard(stop, hard context.Context, cancel context.CancelFunc) {
	select {
	case <-stop.Done():
	case <-hard.Done():
		return
	}
	e.vital.set(true, true)
	e.log.Info(EventStopping, "grace", e.options.StopGrace)
	if sleep(hard, e.options.StopGrace) {
		cancel()
	}
}

// ReconcileOnce looks at every intent whose look is due, and at everything that the scan of the whole ledger finds, and
// returns how many it looked at. It sends nothing.
func (e *Engine) ReconcileOnce(ctx context.Context) (looked int, err error) {
	if err := e.beat(ctx, e.started(), false); err != nil {
		return 0, err
	}
	if _, err := e.scan(ctx); err != nil {
		return 0, err
	}
	if looked, err = e.settleLocals(ctx); err != nil {
		return looked, err
	}
	for _, out := range e.channels.all() {
		n, err := e.reconcileDue(ctx, ctx, out)
		looked += n
		if err != nil {
			return looked, err
		}
	}
	return looked, nil
}

func (e *Engine) started() fence.Instance { return instance(e.options) }

// attrs name an intent in the log.
func attrs(i ledger.Intent) []any {
	return []any{"run_id", i.RunID, "effect_key", i.EffectKey, "channel", i.Channel, "attempt", i.Attempts, "fence", i.FenceNumber}
}
