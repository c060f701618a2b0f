package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// GuardOptions describe a plain Go effect.
type GuardOptions struct {
	RunID   string
	Key     string          // names the step within the run
	Payload json.RawMessage // identity of the call, compared on a second call; nil: null
	Lease   *fence.Lease    // verified in the same transaction; nil for a run without a lease
	Owner   string          // the instance
	// TTL bounds the function: past it the call counts as unknown for everybody else. Default DefaultFenceTTL.
	TTL time.Duration
	// Unknown says what a call that died means to the call that finds it: UnknownHold (default) holds it, for a person;
	// UnknownAbandon ends it as unknown. A guarded function is never run again by Guard, so that UnknownResend is refused.
	Unknown UnknownPolicy
	// ClockAllowance is how long past its end an earlier call counts as possibly alive. Default fence.DefaultClockAllowance.
	ClockAllowance time.Duration
}

// ErrGuardUnknown says that an earlier call of the guarded function began and nobody knows how it ended.
var ErrGuardUnknown = errors.New("an earlier call began and its end is not known; do not retry: look, and resolve it")

// Guard runs f once for (run, key), at most once, and keeps what it returned as evidence. It verifies the lease, inserts the
// intent, fences and stamps it in one transaction, then runs f with a context that ends before the fence does, then commits f's result.
//
// A later call returns the stored result, in canonical form, and does not run f. One that comes while f still runs waits for its
// end. If f returns an error of [channel.NotSent] nothing took effect and the intent is abandoned as never sent, which later
// calls are told; any other error, a panic or the death of the process leave it unknown: later calls return [ErrGuardUnknown]. A
// result of more than [ledger.MaxEvidence] bytes, or that is not JSON, is kept only in part: f ran once, but a later call gets an error
// instead of it.
func Guard(ctx context.Context, l ledger.Ledger, o GuardOptions, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if o.TTL == 0 {
		o.TTL = DefaultFenceTTL
	}
	switch o.Unknown {
	case "":
		o.Unknown = UnknownHold
	case UnknownHold, UnknownAbandon:
	default:
		return nil, fmt.Errorf("guard %s: unknown: %q is none of hold, abandon; a guarded function is never run again", o.Key, o.Unknown)
	}
	before := time.Now()
	r, first, err := l.BeginGuard(ctx, ledger.GuardRequest{RunID: o.RunID, Key: o.Key, Payload: o.Payload, Lease: o.Lease, Owner: o.Owner, TTL: o.TTL})
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", o.Key, err)
	}
	if !first {
		return o.earlier(ctx, l, r)
	}
	end := before.Add(o.TTL)
	// What is known is written for as long as the fence may last, even if the caller has gone.
	writing, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	defer cancel()
	return o.run(ctx, writing, l, r, before.Add(r.Remaining), f)
}

// run runs f and writes what it came to. f must end by notAfter.
func (o GuardOptions) run(ctx, writing context.Context, l ledger.Ledger, r ledger.Result, notAfter time.Time, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	i := r.Intent
	unknown := func(reason string) error {
		_, err := keepWriting(writing, l, i.Key, ledger.Ambiguous{Fence: i.Fence(), Reason: reason})
		if lost(err) {
			err = nil // the others have found out by themselves
		}
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic goes on to the caller; whoever asks next is told at once
			_ = unknown("the guarded function panicked")
		}
	}()
	bounded, cancel := context.WithDeadline(ctx, notAfter)
	defer cancel()
	result, err := f(bounded)
	returned = true
	switch {
	case err != nil && channel.ProvenNotSent(err):
		_, moveErr := keepWriting(writing, l, i.Key, ledger.Abandon{Fence: i.Fence(), As: ledger.NeverSent, Reason: err.Error(), NotSent: true})
		if lost(moveErr) {
			moveErr = o.late(ctx, l, i, ledger.LateNotSent, channel.Evidence{}, err.Error())
		}
		return nil, errors.Join(err, moveErr)
	case err != nil:
		return nil, errors.Join(err, unknown(err.Error()))
	}
	ev := channel.Evidence{Detail: result}
	_, err = keepWriting(writing, l, i.Key, ledger.Commit{Fence: i.Fence(), Evidence: ev, Established: ledger.BySend})
	if err == nil {
		return result, nil
	}
	if lateErr := o.late(ctx, l, i, ledger.LateSent, ev, ""); lateErr != nil {
		return result, fmt.Errorf("guard %s ran, but its result is not committed: %w", o.Key, errors.Join(err, lateErr))
	}
	return result, nil
}

// late hands in what is known though the fence is gone, and has it read at once.
func (o GuardOptions) late(ctx context.Context, l ledger.Ledger, i ledger.Intent, as ledger.LateOutcome, ev channel.Evidence, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.TTL)
	defer cancel()
	late := ledger.Late{Key: i.Key, Fence: i.Fence(), Attempt: i.Attempts, Outcome: as, Evidence: ev, Reason: reason}
	if _, err := keepWriting(ctx, l, i.Key, late); err != nil {
		return err
	}
	_, err := settleLocal(ctx, l, i.Key, o.probeFence(), o.Unknown)
	if errors.Is(err, ledger.ErrFenceAlive) { // somebody is settling it
		err = nil
	}
	return err
}

func (o GuardOptions) probeFence() ledger.ProbeFence {
	return ledger.ProbeFence{Owner: o.Owner, TTL: o.TTL, ClockAllowance: o.ClockAllowance}
}

// earlier says what became of an earlier call. It waits for one that may still run, and settles one that died.
func (o GuardOptions) earlier(ctx context.Context, l ledger.Ledger, r ledger.Result) (json.RawMessage, error) {
	i := r.Intent
	if left := i.FenceExpiresAt.Sub(r.Now); !i.State.Terminal() && i.FenceOwner != "" && left > 0 {
		until, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		var err error
		if i, err = waitFor(until, l, i.Key, func(i ledger.Intent) bool { return i.State.Terminal() || i.FenceOwner == "" }); err != nil && until.Err() == nil {
			return nil, fmt.Errorf("guard %s: %w", o.Key, err)
		}
		if err := ctx.Err(); err != nil && !i.State.Terminal() {
			return nil, fmt.Errorf("guard %s: waiting for an earlier call: %w", o.Key, err)
		}
	}
	if !i.State.Terminal() {
		settled, err := settleLocal(ctx, l, r.Intent.Key, o.probeFence(), o.Unknown)
		switch {
		case err == nil:
			i = settled
		case !errors.Is(err, ledger.ErrFenceAlive):
			return nil, fmt.Errorf("guard %s: settle an earlier call: %w", o.Key, err)
		}
	}
	switch {
	case i.State == ledger.StateCommitted:
		return o.stored(i)
	case i.State == ledger.StateAbandoned && i.AbandonedAs == ledger.Unknown:
		return nil, fmt.Errorf("guard %s: %s: %w", o.Key, i.AbandonReason, ErrGuardUnknown)
	case i.State == ledger.StateAbandoned:
		return nil, fmt.Errorf("guard %s: %s: %s", o.Key, i.Outcome(), i.AbandonReason)
	}
	return nil, fmt.Errorf("guard %s: %w", o.Key, ErrGuardUnknown)
}

// stored is the result that an earlier call left.
func (o GuardOptions) stored(i ledger.Intent) (json.RawMessage, error) {
	detail := ledger.DecodeEvidence(i.Evidence).Detail
	if len(detail) > 0 && (len(detail) >= ledger.MaxEvidence || !json.Valid(detail)) {
		return nil, fmt.Errorf("guard %s: an earlier call ran and ended well, but its result could not be kept whole: it must be JSON of less than %d bytes", o.Key, ledger.MaxEvidence)
	}
	return detail, nil
}
