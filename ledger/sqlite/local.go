package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const (
	localPrefix = "local:"
	// DefaultRecordLife is how long a recorded effect waits for its Finish where the caller names no time.
	DefaultRecordLife = 24 * time.Hour
	// minLocal is the shortest life of a plain Go effect: it is divided into the parts of a fence.
	minLocal = time.Millisecond
)

// RecordOnce implements [ledger.Effects]. The intent is stamped at once: what it stands for may happen from now on, so that it ends as unknown
// unless Finish says otherwise.
func (l *Ledger) RecordOnce(ctx context.Context, tx ledger.Tx, runID, key string, expires time.Duration) (first bool, err error) {
	if expires == 0 {
		expires = DefaultRecordLife
	}
	g := ledger.GuardRequest{RunID: runID, Key: key, Owner: ledger.RecordOwner, TTL: expires}
	p, err := prepareLocal(g)
	if err != nil {
		return false, fmt.Errorf("record once: %w", err)
	}
	err = l.within(ctx, tx, func(s *session) error {
		_, first, err = s.beginLocal(ctx, p, g)
		return err
	})
	var conflict *ledger.KeyConflictError
	if errors.As(err, &conflict) {
		return false, nil // a guard has the key: somebody was first
	}
	if err != nil {
		return false, fmt.Errorf("record once: %w", err)
	}
	return first, nil
}

// BeginGuard implements [ledger.Effects].
func (l *Ledger) BeginGuard(ctx context.Context, g ledger.GuardRequest) (r ledger.Result, first bool, err error) {
	if g.Owner == "" {
		return r, false, &ledger.InvalidError{Field: "owner", Reason: "is empty; name the instance"}
	}
	p, err := prepareLocal(g)
	if err != nil {
		return r, false, fmt.Errorf("begin guard: %w", err)
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		r, first, err = s.beginLocal(ctx, p, g)
		return err
	})
	if err != nil {
		return r, false, fmt.Errorf("begin guard: %w", err)
	}
	return r, first, nil
}

func prepareLocal(g ledger.GuardRequest) (ledger.Prepared, error) {
	if g.TTL < minLocal {
		return ledger.Prepared{}, &ledger.InvalidError{Field: "ttl", Reason: fmt.Sprintf("is %s; use at least %s, and what the effect can take", g.TTL, minLocal)}
	}
	payload := g.Payload
	if payload == nil {
		payload = []byte("null")
	}
	return ledger.Prepare(ledger.Claim{
		RunID: g.RunID, EffectKey: localPrefix + g.Key, Channel: ledger.ChannelLocal, Payload: payload, Lease: g.Lease,
	})
}

// beginLocal verifies the lease, inserts, fences and stamps.
func (s *session) beginLocal(ctx context.Context, p ledger.Prepared, g ledger.GuardRequest) (r ledger.Result, first bool, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return r, false, err
	}
	if p.Lease != nil {
		if err := s.verifyLease(ctx, *p.Lease, now); err != nil {
			return r, false, err
		}
	}
	if err := s.unleased(ctx, []ledger.Prepared{p}, now); err != nil {
		return r, false, err
	}
	k := ledger.Key{RunID: p.RunID, EffectKey: p.EffectKey}
	if first, err = s.insertIntent(ctx, p.Intent(now)); err != nil {
		return r, false, err
	}
	if !first {
		return s.localThere(ctx, p, k, now)
	}
	snap, err := s.snapshot(ctx, k)
	if err != nil {
		return r, false, err
	}
	fenced, err := s.decide(ctx, snap, ledger.Fence{Owner: g.Owner, TTL: g.TTL})
	if err != nil {
		return r, false, err
	}
	if !fenced.Applied { // late evidence for the key was there already, or its run was cancelled
		return fenced, false, nil
	}
	begun := snap.Now
	if snap, err = s.snapshot(ctx, k); err != nil {
		return r, false, err
	}
	snap.Now = begun // fence and stamp are one moment, so that the whole fence is left
	part := g.TTL / 10
	r, err = s.decide(ctx, snap, ledger.Stamp{
		Fence: fenced.Intent.Fence(), Token: &channel.Token{Version: 1, Data: []byte(k.String())}, Sheet: channel.Sheet{Kind: ledger.ChannelLocal},
		SendTimeout: g.TTL - 2*part, CommitBound: part, Margin: part,
	})
	return r, err == nil && r.Applied, err
}

// localThere answers with the intent that has the key.
func (s *session) localThere(ctx context.Context, p ledger.Prepared, k ledger.Key, now time.Time) (r ledger.Result, first bool, err error) {
	i, err := s.intent(ctx, k)
	if err != nil {
		return r, false, err
	}
	r = ledger.Result{Intent: i, Now: now}
	if i.PayloadDigest != p.PayloadDigest {
		return r, false, &ledger.KeyConflictError{Key: k, Have: i.PayloadDigest, Wanted: p.PayloadDigest}
	}
	return r, false, nil
}

// Finish implements [ledger.Effects].
func (l *Ledger) Finish(ctx context.Context, runID, key string, result channel.Evidence) error {
	k := ledger.Key{RunID: runID, EffectKey: localPrefix + key}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		snap, err := s.snapshot(ctx, k)
		if err != nil {
			return err
		}
		if snap.Found && snap.Intent.State.Terminal() {
			return fmt.Errorf("%s is %s: %w", k, snap.Intent.Outcome(), ledger.ErrTerminal)
		}
		_, err = s.decide(ctx, snap, ledger.Finished(snap, result))
		return err
	})
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

var _ ledger.Effects = (*Ledger)(nil)
