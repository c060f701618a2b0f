package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// send drives one dispatch from its fence to whatever can be written of it: token, stamp, the one external call, the
// outcome. ctx ends only in the second step of a stop.
func (e *Engine) send(ctx context.Context, out *outlet, d dispatched) {
	out.sending.Add(1)
	defer out.sending.Add(-1)
	defer e.measure.under(ctx, out.name, "send")()
	ctx, span := e.startSpan(ctx, "pawl.dispatch", d.Intent, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(d.asked))
	defer span.End()
	span.AddEvent("fenced")
	i := d.Intent
	f := i.Fence()
	// Our own deadline is earlier than the fence's: it is counted from before we asked.
	fenced, cancel := context.WithDeadline(ctx, d.asked.Add(out.policy.FenceTTL-out.policy.CommitBound-out.policy.Margin))
	defer cancel()

	token, fresh, err := e.token(fenced, out, d)
	if err != nil {
		e.unsent(ctx, out, i, err)
		return
	}
	if i.Shadow() {
		e.endShadow(ctx, i, token, out)
		return
	}
	stamp := ledger.Stamp{
		Fence: f, Sheet: out.sheet, SendTimeout: out.policy.SendTimeout, CommitBound: out.policy.CommitBound, Margin: out.policy.Margin,
		DrawsFromLane: out.sheet.LaneNumbers,
	}
	if fresh {
		stamp.Token = &token
	}
	before := time.Now()
	stamped, err := e.ledger.Move(fenced, i.Key, stamp)
	switch {
	case err == nil && !stamped.Applied:
		e.measure.fruitless.Add(ctx, 1, onChannel(out.name))
		e.report(ctx, stamped.Intent, EventLate)
		return
	case err != nil:
		// Nothing was sent, whatever became of the stamp.
		e.unsent(ctx, out, i, fmt.Errorf("stamp: %w", err))
		return
	}
	span.AddEvent("stamped")
	span.SetAttributes(attemptKey.Int(stamped.Intent.Attempts))
	e.measure.attempts.Add(ctx, 1, onChannel(out.name))
	notAfter := before.Add(stamped.Remaining)
	call, cancelCall := context.WithDeadline(ctx, notAfter.Add(out.policy.SendTimeout))
	defer cancelCall()
	outcome, err := e.call(call, out, channel.Attempt{
		Intent: i.ForChannel(), Number: stamped.Intent.Attempts, Tokens: stamped.Tokens, NotAfter: notAfter,
		FirstSentAt: stamped.Intent.FirstSentAt, LastPossibleSend: stamped.Intent.LastPossibleSend,
	})
	e.conclude(ctx, out, stamped.Intent, outcome, err)
}

// call makes the one external call. A panic of a channel in this process is ambiguous.
func (e *Engine) call(ctx context.Context, out *outlet, a channel.Attempt) (o channel.Outcome, err error) {
	ctx, span := e.measure.call(ctx, "send", a.Intent, a.Number)
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = channel.Ambiguous("panic", fmt.Errorf("the channel panicked: %v", p))
		}
		result := resultOf(o, err)
		e.measure.answered(ctx, out.name, result, time.Since(began))
		if span.SetAttributes(resultKey.String(result)); err != nil {
			failed(span, result)
		}
		span.End()
	}()
	return out.channel.Send(ctx, a)
}

// token returns the token to send with: the newest stored one, or a new first version, which the stamp will store. A claim that was written
// by plain SQL is checked here, before anything is made of it.
func (e *Engine) token(ctx context.Context, out *outlet, d dispatched) (t channel.Token, fresh bool, err error) {
	if n := len(d.Tokens); n > 0 {
		return d.Tokens[n-1], false, nil
	}
	i := d.Intent
	if err := e.checkClaim(out, i); err != nil {
		return t, false, &channel.RejectedError{Code: "claim", Err: err}
	}
	return e.makeToken(ctx, out, d.Dispatch, 1)
}

func (e *Engine) makeToken(ctx context.Context, out *outlet, d ledger.Dispatch, version int) (t channel.Token, fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, out.policy.SendTimeout)
	defer cancel()
	ctx, span := e.measure.call(ctx, "token", d.Intent.ForChannel(), d.Intent.Attempts)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the channel panicked: %v", p)
		}
		if err != nil {
			failed(span, "no token")
		}
		span.End()
	}()
	t, err = out.channel.IdempotencyToken(ctx, channel.TokenRequest{
		Intent: d.Intent.ForChannel(), Version: version, Earlier: d.Tokens, LaneNumber: d.LaneNumber,
	})
	if err != nil {
		return t, false, fmt.Errorf("make the token: %w", err)
	}
	if len(t.Data) == 0 {
		return t, false, errors.New("make the token: the adapter returned an empty one")
	}
	t.Version = version
	return t, true, nil
}

// checkClaim is the check of a claim, for rows that plain SQL wrote.
func (e *Engine) checkClaim(out *outlet, i ledger.Intent) error {
	digest, err := canonical.SumExact(i.Payload)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if digest.Hex() != i.PayloadDigest {
		return fmt.Errorf("payload_digest: the payload's is %s", digest.Hex())
	}
	if most := out.sheet.MaxPayload; most > 0 && len(i.Payload) > most {
		return fmt.Errorf("payload: is %d bytes, more than %d", len(i.Payload), most)
	}
	return e.schemas.Check(out.sheet.PayloadSchema, i.Payload)
}

// unsent writes that this dispatch sent nothing. It holds for every error before the external call.
func (e *Engine) unsent(ctx context.Context, out *outlet, i ledger.Intent, err error) {
	e.measure.fruitless.Add(ctx, 1, onChannel(out.name))
	failed(trace.SpanFromContext(ctx), "not sent")
	if ctx.Err() != nil { // the grace of a stop is over: given back, the intent need not wait until this fence is dead
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), out.policy.CommitBound)
		defer cancel()
		ctx = last
	}
	var rejected *channel.RejectedError
	if errors.As(err, &rejected) && !i.InDoubt() {
		e.finish(ctx, i, ledger.Abandon{Fence: i.Fence(), As: abandonedAs(rejected), Reason: err.Error(), NotSent: true}, EventRejected)
		return
	}
	after := out.policy.backoff(max(i.Starts, 1))
	if errors.Is(err, ledger.ErrFenceExpired) {
		after = 0 // our own delay, not the channel's
	}
	e.reopenNotSent(ctx, out, i, err, after, false)
}

// abandonedAs tells what the outside system refused from what never got to it.
func abandonedAs(r *channel.RejectedError) ledger.AbandonedAs {
	if r.Code == "claim" {
		return ledger.NeverSent
	}
	return ledger.Refused
}

// reopenNotSent lets the intent be sent again. stamped says that i is the row as this dispatch stamped it: only then is its attempt ours,
// and only then can a fence that is gone be answered with late evidence. Without it i.Attempts is somebody else's attempt.
func (e *Engine) reopenNotSent(ctx context.Context, out *outlet, i ledger.Intent, cause error, after time.Duration, stamped bool) {
	var notSent *channel.NotSentError
	if errors.As(cause, &notSent) {
		after = max(after, notSent.RetryAfter)
		if notSent.Configuration {
			e.pauseChannel(ctx, out, cause)
		}
	}
	m := ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent, After: after, Error: cause.Error()}
	r, err := e.write(ctx, i, m)
	if lost(err) && stamped {
		e.late(ctx, i, ledger.LateNotSent, channel.Evidence{}, cause.Error())
		return
	}
	if err != nil {
		e.fenceLost(ctx, i, "reopen", err)
		return
	}
	e.report(ctx, r.Intent, EventNotSent)
}

// pauseChannel tries until the ledger answers: as long as the channel is not paused, every intent of it would run into the same fault.
func (e *Engine) pauseChannel(ctx context.Context, out *outlet, cause error) {
	reason := "the adapter says that the channel's configuration is at fault: " + cause.Error()
	for n := 0; ; n++ {
		err := e.ledger.SetPaused(ctx, out.name, true, reason)
		if err == nil {
			break
		}
		e.vital.retry()
		e.log.WarnContext(ctx, EventLedger, "doing", "pause", "channel", out.name, "error", err)
		if errors.Is(err, ledger.ErrUnknownChannel) || !sleep(ctx, doubled(50*time.Millisecond, n, 2*time.Second)) {
			return
		}
	}
	e.measure.pauses.Add(ctx, 1, onChannel(out.name))
	e.log.ErrorContext(ctx, EventChannelPaused, "channel", out.name, "reason", reason)
}

// endShadow stores the token and ends the intent: in shadow everything happens but the send.
func (e *Engine) endShadow(ctx context.Context, i ledger.Intent, t channel.Token, out *outlet) {
	if _, err := e.write(ctx, i, ledger.PutToken{Fence: i.Fence(), Token: t}); err != nil {
		e.unsent(ctx, out, i, err)
		return
	}
	e.finish(ctx, i, ledger.Abandon{Fence: i.Fence(), As: ledger.NeverSent, Reason: "shadow: everything up to the token, nothing sent", NotSent: true}, EventAbandoned)
}

// conclude writes what the send came to. i is the row as it was stamped.
func (e *Engine) conclude(ctx context.Context, out *outlet, i ledger.Intent, o channel.Outcome, err error) {
	switch {
	case err != nil && channel.ProvenNotSent(err):
		var rejected *channel.RejectedError
		if errors.As(err, &rejected) {
			e.rejected(ctx, out, i, err)
			return
		}
		e.reopenNotSent(ctx, out, i, err, out.policy.backoff(i.Attempts), true)
	case err != nil:
		e.ambiguous(ctx, out, i, err)
	case o.Kind == channel.OutcomeDelivered:
		e.delivered(ctx, i, o.Evidence)
	case o.Kind == channel.OutcomeAccepted && out.sheet.MayAccept:
		look := o.LookAgain
		if look <= 0 {
			look = out.policy.ProbeEvery
		}
		r, err := e.write(ctx, i, ledger.Accept{Fence: i.Fence(), Evidence: o.Evidence, LookAgain: look})
		if err != nil {
			e.fenceLost(ctx, i, "accept", err)
			return
		}
		e.report(ctx, r.Intent, EventAccepted)
	case o.Kind == channel.OutcomeFailedOutside && !o.Evidence.Empty():
		e.finish(ctx, i, ledger.Abandon{Fence: i.Fence(), As: ledger.FailedOutside, Reason: o.Reason, Evidence: o.Evidence}, EventFailedOutside)
	case o.Kind == channel.OutcomeSuccessorWanted:
		e.successor(ctx, out, i, o.Reason)
	default:
		e.ambiguous(ctx, out, i, fmt.Errorf("the adapter answered %s, which its sheet does not allow", o.Kind))
	}
}

// delivered commits the evidence. If the fence is gone the evidence is handed in late.
func (e *Engine) delivered(ctx context.Context, i ledger.Intent, ev channel.Evidence) {
	r, err := e.write(ctx, i, ledger.Commit{Fence: i.Fence(), Evidence: ev, Established: ledger.BySend})
	switch {
	case lost(err):
		e.late(ctx, i, ledger.LateSent, ev, "")
	case err != nil:
		e.log.ErrorContext(ctx, EventLedger, append(attrs(i), "doing", "commit", "error", err)...)
	default:
		e.report(ctx, r.Intent, EventSent)
	}
}

// rejected ends the intent as refused; in doubt about an earlier attempt it is left for the reconciler.
func (e *Engine) rejected(ctx context.Context, out *outlet, i ledger.Intent, cause error) {
	r, err := e.write(ctx, i, ledger.Abandon{Fence: i.Fence(), As: ledger.Refused, Reason: cause.Error(), NotSent: true})
	var refused *ledger.RefusedError
	switch {
	case errors.As(err, &refused):
		e.ambiguous(ctx, out, i, fmt.Errorf("refused now, but an earlier attempt may have taken effect: %w", cause))
	case lost(err):
		e.late(ctx, i, ledger.LateNotSent, channel.Evidence{}, cause.Error())
	case err != nil:
		e.log.WarnContext(ctx, EventLedger, append(attrs(i), "doing", "abandon", "error", err)...)
	default:
		e.report(ctx, r.Intent, EventRejected)
	}
}

// ambiguous gives the fence back with the stamp left: the reconciler finds out.
func (e *Engine) ambiguous(ctx context.Context, out *outlet, i ledger.Intent, cause error) {
	e.log.WarnContext(ctx, EventAmbiguous, append(attrs(i), "error", cause)...)
	e.measure.ambiguities.Add(ctx, 1, onChannel(i.Channel))
	if _, err := e.write(ctx, i, ledger.Ambiguous{Fence: i.Fence(), Reason: cause.Error()}); err != nil { // the row stays stamped, which says the same
		e.fenceLost(ctx, i, "ambiguous", err)
	}
}

// successor stores a further token version and reopens: the attempt sent nothing.
func (e *Engine) successor(ctx context.Context, out *outlet, i ledger.Intent, reason string) {
	_, tokens, err := e.ledger.Intent(ctx, i.Key)
	if err == nil {
		var t channel.Token
		if t, _, err = e.makeToken(ctx, out, ledger.Dispatch{Intent: i, Tokens: tokens}, len(tokens)+1); err == nil {
			_, err = e.write(ctx, i, ledger.PutToken{Fence: i.Fence(), Token: t, NotSent: true})
		}
	}
	if refusedFor(err, "restore-token-lost") { // an earlier life of the ledger may have stored one, and sent it
		e.finish(ctx, i, ledger.Hold{Fence: i.Fence(), Reason: err.Error(), Look: out.policy.HeldEvery, FreeLane: out.policy.Lane == LaneSkip}, EventHeld)
		return
	}
	if err != nil {
		e.reopenNotSent(ctx, out, i, fmt.Errorf("a further token version is wanted (%s) but cannot be stored: %w", reason, err), out.policy.backoff(i.Attempts), true)
		return
	}
	e.reopenNotSent(ctx, out, i, errors.New("a further token version was stored: "+reason), 0, true)
}

// finish writes an end and reports it.
func (e *Engine) finish(ctx context.Context, i ledger.Intent, m ledger.Move, event string) {
	r, err := e.write(ctx, i, m)
	if err != nil {
		e.fenceLost(ctx, i, event, err)
		return
	}
	e.report(ctx, r.Intent, event)
}
