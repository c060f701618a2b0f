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
	// Unknown says what a call that died means: UnknownHold (default) or UnknownAbandon return the outcome as it is; a guarded function is
	// never run again by Guard.
	Unknown UnknownPolicy
}

// ErrGuardUnknown says that an earlier call of the guarded function began and nobody knows how it ended.
var ErrGuardUnknown = errors.New("an earlier call began and its end is not known; do not retry: look, and resolve it")

// Guard runs f once for (run, key), at most once, and keeps what it returned as evidence. It verifies the lease, inserts the
// intent, fences and stamps it in one transaction, then runs f with a context that ends before the fence does, then commits f's result.
//
// A later call returns the stored result and does not run f. If f returns an error of [channel.NotSent] nothing took effect and
// the intent is abandoned as never sent; any other error leaves it unknown. A call that finds an unfinished one returns
// [ErrGuardUnknown] when that one is dead.
func Guard(ctx context.Context, l ledger.Ledger, o GuardOptions, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if o.TTL == 0 {
		o.TTL = DefaultFenceTTL
	}
	before := time.Now()
	r, first, err := l.BeginGuard(ctx, ledger.GuardRequest{RunID: o.RunID, Key: o.Key, Payload: o.Payload, Lease: o.Lease, Owner: o.Owner, TTL: o.TTL})
	if err != nil {
		return nil, fmt.Errorf("guard %s: %w", o.Key, err)
	}
	if !first {
		return guardOutcome(r.Intent, o.Key)
	}
	run, cancel := context.WithDeadline(ctx, before.Add(o.TTL))
	defer cancel()
	result, err := f(run)
	i := r.Intent
	if err != nil {
		if channel.ProvenNotSent(err) {
			_, moveErr := l.Move(context.WithoutCancel(ctx), i.Key, ledger.Abandon{Fence: i.Fence(), As: ledger.NeverSent, Reason: err.Error(), NotSent: true})
			return nil, errors.Join(err, moveErr)
		}
		return nil, err
	}
	ev := channel.Evidence{Detail: result}
	if _, err := l.Move(context.WithoutCancel(ctx), i.Key, ledger.Commit{Fence: i.Fence(), Evidence: ev, Established: ledger.BySend}); err != nil {
		_, lateErr := l.Move(context.WithoutCancel(ctx), i.Key, ledger.Late{Key: i.Key, Fence: i.Fence(), Attempt: i.Attempts, Outcome: ledger.LateSent, Evidence: ev})
		return result, errors.Join(fmt.Errorf("guard %s ran, but its result is not committed: %w", o.Key, err), lateErr)
	}
	return result, nil
}

func guardOutcome(i ledger.Intent, key string) (json.RawMessage, error) {
	switch {
	case i.State == ledger.StateCommitted:
		return ledger.DecodeEvidence(i.Evidence).Detail, nil
	case i.State == ledger.StateAbandoned:
		return nil, fmt.Errorf("guard %s: %s: %s", key, i.Outcome(), i.AbandonReason)
	}
	return nil, fmt.Errorf("guard %s: %w", key, ErrGuardUnknown)
}
