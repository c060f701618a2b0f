package core

import (
	"context"
	"errors"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// decided reports whether the ledger answered the move, for or against: trying it again would change nothing.
func decided(err error) bool {
	var refused *ledger.RefusedError
	var invalid *ledger.InvalidError
	return err == nil || errors.As(err, &refused) || errors.As(err, &invalid) ||
		errors.Is(err, ledger.ErrFenceLost) || errors.Is(err, ledger.ErrFenceExpired) || errors.Is(err, ledger.ErrFenceAlive) ||
		errors.Is(err, ledger.ErrNoIntent) || errors.Is(err, ledger.ErrTerminal) || errors.Is(err, ledger.ErrNumberMoved) ||
		errors.Is(err, ledger.ErrTokenClash)
}

// write makes a move that carries what this engine knows. It tries until the ledger answers: while it cannot be written the worker
// that waits here sends nothing more. It gives up only when ctx ends; what was known then is found out by a probe.
func (e *Engine) write(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	for n := 0; ; n++ {
		r, err := e.ledger.Move(ctx, k, m)
		if decided(err) {
			if n > 0 {
				e.log.Info(EventLedgerBack, "run_id", k.RunID, "effect_key", k.EffectKey, "tries", n+1)
			}
			if r.Alarm != "" {
				e.log.Error(EventAlarm, "run_id", k.RunID, "effect_key", k.EffectKey, "alarm", r.Alarm)
			}
			return r, err
		}
		e.measure.commitFailed(ctx)
		e.log.Warn(EventLedger, "run_id", k.RunID, "effect_key", k.EffectKey, "error", err)
		if !sleep(ctx, doubled(50*time.Millisecond, n, 2*time.Second)) {
			return r, err
		}
	}
}

// late hands in what is known of an attempt whose fence is gone.
func (e *Engine) late(ctx context.Context, k ledger.Key, f fence.Fence, attempt int, outcome ledger.LateOutcome, ev channel.Evidence, reason string) {
	_, err := e.write(ctx, k, ledger.Late{Key: k, Fence: f, Attempt: attempt, Outcome: outcome, Evidence: ev, Reason: reason})
	e.measure.fenceLost(ctx)
	e.log.Warn(EventLate, "run_id", k.RunID, "effect_key", k.EffectKey, "attempt", attempt, "fence", f.Number, "outcome", outcome, "error", err)
	e.settled.wakeAll()
}

// lost reports whether a move failed because the row has moved on without us.
func lost(err error) bool {
	return errors.Is(err, ledger.ErrFenceLost) || errors.Is(err, ledger.ErrTerminal) || errors.Is(err, ledger.ErrNoIntent)
}

// report logs and counts what an intent came to, and wakes whoever waits for it.
func (e *Engine) report(ctx context.Context, i ledger.Intent, otherwise string) {
	event, level := otherwise, e.log.Info
	switch {
	case i.State == ledger.StateCommitted:
		event = EventSent
	case i.State == ledger.StateAbandoned:
		level = e.log.Warn
		if otherwise != EventRejected && otherwise != EventFailedOutside { // these say more
			event = EventAbandoned
		}
	case i.Held():
		event, level = EventHeld, e.log.Error
	}
	level(event, append(attrs(i), "outcome", i.Outcome(), "established", string(i.Established), "reason", firstOf(i.HoldReason, i.AbandonReason, i.LastError))...)
	e.measure.outcome(ctx, i, event)
	e.settled.wakeAll()
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
