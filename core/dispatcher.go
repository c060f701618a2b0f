package core

import (
	"context"
	"sync"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// maxBatch bounds one fence transaction: a batch that is too large would outlive its own fences in a slow moment.
const maxBatch = 64

// dispatch takes due intents of one channel and sends them, at most Concurrency at once, until stop ends; then it waits for
// what is under way, which hard cancels.
func (e *Engine) dispatch(stop, hard context.Context, out *outlet) {
	pulse := e.vital.enter("dispatch", out.name, out.policy.FenceTTL+out.policy.SendTimeout+out.policy.CommitBound+e.options.PollEvery)
	defer e.vital.leave(pulse)
	var sends sync.WaitGroup
	defer sends.Wait()
	failures := 0
	for stop.Err() == nil {
		pulse.progress()
		woken := out.wake.wait() // before the ledger is asked, so that no wake is missed
		free := out.slots.take(stop, maxBatch)
		if free == 0 {
			return
		}
		dispatches, wait, err := e.fence(stop, hard, out, free)
		out.slots.giveBack(free - len(dispatches))
		for _, d := range dispatches {
			e.inflight.join(d.Intent.Key) // before the goroutine starts: the reconciler may look at any time
			sends.Go(func() {
				defer out.slots.giveBack(1)
				defer pulse.progress()
				defer e.inflight.leave(d.Intent.Key)
				e.send(hard, out, d)
			})
		}
		if err != nil {
			if stop.Err() == nil {
				e.log.Warn(EventLedger, "doing", "fence", "channel", out.name, "error", err)
			}
			failures++
			wait = doubled(100*time.Millisecond, failures, 5*time.Second)
		} else {
			failures = 0
		}
		pause(stop, woken, wait)
	}
}

// dispatched is an intent that this engine may send, with the moment before it asked for the fence.
type dispatched struct {
	ledger.Dispatch
	asked time.Time
}

// fence takes up to free intents, within the channel's shared rate. wait is how long to wait before asking again. It is asked of the
// ledger under hard: a fence whose COMMIT is given up half-way may have been taken, and nobody would use it until it is dead. Once
// stop has ended nothing is fenced any more: a start that leads to no send is a start for nothing.
func (e *Engine) fence(stop, hard context.Context, out *outlet, free int) (_ []dispatched, wait time.Duration, err error) {
	if !out.ready() { // nothing is fenced for an adapter that is down: a crash or a deploy burns no attempt
		return nil, e.options.PollEvery, nil
	}
	// The rate as the last fence found it: one that is set meanwhile counts from the next fence on.
	rated := out.rate.Load() > 0
	granted := free
	if rated {
		if granted, wait, err = e.ledger.TakeRate(hard, out.name, free); err != nil || granted == 0 {
			return nil, wait, err
		}
	}
	if err := stop.Err(); err != nil {
		if rated {
			e.giveBack(hard, out, granted)
		}
		return nil, 0, err
	}
	asked := time.Now()
	r, err := e.ledger.Fence(hard, ledger.FenceRequest{Fence: e.fenceFor(out), Channel: out.name, Limit: granted})
	if rated { // an engine that finds nothing to send must not starve the others
		e.giveBack(hard, out, granted-len(r.Dispatches))
	}
	if err != nil {
		return nil, 0, err
	}
	out.rate.Store(int64(r.RatePerMinute))
	for _, i := range r.Settled {
		e.report(InTrace(hard, i), i, EventReopened)
	}
	e.measure.starts.Add(hard, int64(len(r.Dispatches)), onChannel(out.name))
	batch := make([]dispatched, 0, len(r.Dispatches))
	for _, d := range r.Dispatches {
		e.log.DebugContext(InTrace(hard, d.Intent), EventFenced, attrs(d.Intent)...)
		batch = append(batch, dispatched{d, asked})
	}
	wait = e.options.PollEvery
	if len(batch)+len(r.Settled) >= granted {
		wait = 0
	} else if r.NextDue >= 0 {
		wait = min(wait, max(r.NextDue, time.Millisecond))
	}
	return batch, wait, nil
}

// giveBack returns what was taken of the channel's shared rate and not used. What gets lost here only makes the channel slower.
func (e *Engine) giveBack(ctx context.Context, out *outlet, n int) {
	if n <= 0 {
		return
	}
	if _, _, err := e.ledger.TakeRate(ctx, out.name, -n); err != nil && ctx.Err() == nil {
		e.log.Warn(EventLedger, "doing", "give back rate", "channel", out.name, "error", err)
	}
}

func (e *Engine) fenceFor(out *outlet) ledger.Fence {
	return ledger.Fence{
		Owner: e.options.Instance, TTL: out.policy.FenceTTL, StartCeiling: out.policy.StartCeiling,
		AttemptCeiling: out.policy.AttemptCeiling, ApprovalRequired: out.approvalRequired.Load(),
	}
}

// pause waits for the time, for a wake or for the stop.
func pause(ctx context.Context, woken <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-t.C:
	}
}
