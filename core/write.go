package core

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
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
func (e *Engine) write(ctx context.Context, i ledger.Intent, m ledger.Move) (ledger.Result, error) {
	ctx, span := e.measure.moving(ctx, i, m)
	defer span.End()
	for n := 0; ; n++ {
		r, err := e.ledger.Move(ctx, i.Key, m)
		if decided(err) {
			if n > 0 {
				e.log.InfoContext(ctx, EventLedgerBack, append(attrs(i), "tries", n+1)...)
			}
			e.wrote(ctx, span, i, m, r, err)
			return r, err
		}
		span.AddEvent("not written")
		e.vital.retry()
		e.measure.writeFailures.Add(ctx, 1, metric.WithAttributes(attribute.String("move", moveName(m))))
		e.log.WarnContext(ctx, EventLedger, append(attrs(i), "doing", moveName(m), "error", err)...)
		if !sleep(ctx, doubled(50*time.Millisecond, n, 2*time.Second)) {
			failed(span, "given up")
			return r, err
		}
	}
}

// wrote looks at what the ledger answered.
func (e *Engine) wrote(ctx context.Context, span trace.Span, i ledger.Intent, m ledger.Move, r ledger.Result, err error) {
	if r.Alarm != "" {
		e.measure.alarms.Add(ctx, 1, onChannel(i.Channel))
		e.log.ErrorContext(ctx, EventAlarm, append(attrs(i), "alarm", r.Alarm)...)
	}
	if err != nil {
		failed(span, "refused")
		return
	}
	reopen, ok := m.(ledger.Reopen)
	if ok && reopen.Proof == ledger.ProofNoStamp { // whoever had started it died before it sent
		e.measure.fruitless.Add(ctx, 1, onChannel(i.Channel))
	}
	if ok && r.Intent.State == ledger.StateIntent {
		e.measure.reopenings.Add(ctx, 1, onChannelWith(i.Channel, "proof", string(reopen.Proof)))
	}
}

// fenceLost says that a write came too late, or was given up.
func (e *Engine) fenceLost(ctx context.Context, i ledger.Intent, doing string, err error) {
	if lost(err) {
		e.measure.fenceLosses.Add(ctx, 1, onChannel(i.Channel))
	}
	e.log.WarnContext(ctx, EventFenceLost, append(attrs(i), "doing", doing, "error", err)...)
}

// late hands in what is known of an attempt whose fence is gone. i is the row as that attempt was stamped.
func (e *Engine) late(ctx context.Context, i ledger.Intent, outcome ledger.LateOutcome, ev channel.Evidence, reason string) {
	_, err := e.write(ctx, i, ledger.Late{Key: i.Key, Fence: i.Fence(), Attempt: i.Attempts, Outcome: outcome, Evidence: ev, Reason: reason})
	e.measure.fenceLosses.Add(ctx, 1, onChannel(i.Channel))
	e.measure.late.Add(ctx, 1, onChannelWith(i.Channel, "outcome", string(outcome)))
	e.log.WarnContext(ctx, EventLate, append(attrs(i), "outcome", outcome, "error", err)...)
	e.settled.wakeAll()
}

// lost reports whether a move failed because the row has moved on without us.
func lost(err error) bool {
	return errors.Is(err, ledger.ErrFenceLost) || errors.Is(err, ledger.ErrTerminal) || errors.Is(err, ledger.ErrNoIntent)
}

// report logs and counts what an intent came to, and wakes whoever waits for it.
func (e *Engine) report(ctx context.Context, i ledger.Intent, otherwise string) {
	event, level := otherwise, e.log.InfoContext
	switch {
	case i.State == ledger.StateCommitted:
		event = EventSent
	case i.State == ledger.StateAbandoned:
		level = e.log.WarnContext
		if otherwise != EventRejected && otherwise != EventFailedOutside { // these say more
			event = EventAbandoned
		}
	case i.Held():
		event, level = EventHeld, e.log.ErrorContext
	}
	level(ctx, event, append(attrs(i), "outcome", i.Outcome(), "established", string(i.Established), "reason", firstOf(i.HoldReason, i.AbandonReason, i.LastError))...)
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
