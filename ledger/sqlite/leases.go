package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	defaultReclaimCeiling = 5
	defaultReclaimLimit   = 100
)

const selectRun = `SELECT id, status, lease_owner, lease_epoch, lease_expires_at, retries, coalesce(idempotency_key, ''), created_at, updated_at
	FROM agent_runs WHERE `

func scanRun(r *fence.Run) []any {
	return []any{&r.ID, &r.Status, &r.Owner, &r.Number, scanTime{&r.ExpiresAt}, &r.Retries, &r.IdempotencyKey, scanTime{&r.CreatedAt},
		scanTime{&r.UpdatedAt}}
}

// CreateRun implements [fence.Storage].
func (l *Ledger) CreateRun(ctx context.Context, run fence.NewRun) (r fence.Run, created bool, err error) {
	if run.ID == "" {
		if run.ID, err = canonical.ResourceRunID(run.IdempotencyKey); err != nil { // no deterministic resource
			if run.ID, err = newID(); err != nil {
				return r, false, err
			}
		}
	}
	id, err := uuid.Parse(run.ID)
	if err != nil {
		return r, false, &ledger.InvalidError{Field: "run_id", Reason: fmt.Sprintf("%q is not a UUID; use one for each unit of work", bounded(run.ID))}
	}
	run.ID = id.String()
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		r, created = fence.Run{}, false
		found, err := s.find(ctx, selectRun+"id = ? OR idempotency_key = ? ORDER BY idempotency_key IS NOT ? LIMIT 1",
			[]any{run.ID, nullText(run.IdempotencyKey), nullText(run.IdempotencyKey)}, scanRun(&r)...)
		if err != nil || found {
			return err
		}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, "INSERT INTO agent_runs (id, idempotency_key, created_at, updated_at) VALUES (?, ?, ?, ?)",
			run.ID, nullText(run.IdempotencyKey), timeText(now), timeText(now)); err != nil {
			return err
		}
		created = true
		r, err = s.run(ctx, run.ID)
		return err
	})
	if err != nil {
		return fence.Run{}, false, fmt.Errorf("create run: %w", err)
	}
	return r, created, nil
}

// run reads one run.
func (s *session) run(ctx context.Context, id string) (r fence.Run, err error) {
	found, err := s.find(ctx, selectRun+"id = ?", []any{id}, scanRun(&r)...)
	if err != nil {
		return r, fmt.Errorf("read run %s: %w", id, err)
	}
	if !found {
		return r, fmt.Errorf("run %s: %w", id, fence.ErrNoRun)
	}
	return r, nil
}

// Run implements [fence.Storage].
func (l *Ledger) Run(ctx context.Context, runID string) (r fence.Run, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		r, err = s.run(ctx, runID)
		return err
	})
	return r, err
}

// Acquire implements [fence.Storage].
func (l *Ledger) Acquire(ctx context.Context, runID string, o fence.AcquireOptions) (lease fence.Lease, err error) {
	switch {
	case o.Owner == "":
		return lease, &ledger.InvalidError{Field: "owner", Reason: "is empty; name the worker"}
	case o.TTL <= 0:
		return lease, &ledger.InvalidError{Field: "ttl", Reason: "must be positive"}
	}
	if o.ClockAllowance <= 0 {
		o.ClockAllowance = fence.DefaultClockAllowance
	}
	if o.ReclaimCeiling <= 0 {
		o.ReclaimCeiling = defaultReclaimCeiling
	}
	var refused error // an answer that goes with something written
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		lease, refused, err = s.acquire(ctx, runID, o)
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fence.Lease{}, fmt.Errorf("acquire lease: %w", err)
	}
	return lease, nil
}

func (s *session) acquire(ctx context.Context, runID string, o fence.AcquireOptions) (lease fence.Lease, refused, err error) {
	r, err := s.run(ctx, runID)
	if err != nil {
		return lease, nil, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return lease, nil, err
	}
	switch {
	case r.Status == fence.StatusQuarantined:
		return lease, nil, fence.ErrQuarantined
	case r.Status.Terminal():
		return lease, nil, fmt.Errorf("run %s is %s: %w", runID, r.Status, fence.ErrEnded)
	case leased(r):
		allowance := o.ClockAllowance
		if r.Owner == o.Owner {
			allowance = 0
		}
		if !now.After(r.ExpiresAt.Add(allowance)) {
			return lease, nil, fence.ErrHeld
		}
		if r.Retries++; r.Retries > o.ReclaimCeiling {
			return lease, fence.ErrQuarantined, s.endLease(ctx, r, fence.StatusQuarantined, now)
		}
	}
	epoch, err := s.currentEpoch(ctx)
	if err != nil {
		return lease, nil, err
	}
	lease = fence.Lease{
		RunID: r.ID, Fence: fence.Fence{Epoch: epoch, Number: r.Number + 1, Owner: o.Owner}, ExpiresAt: now.Add(o.TTL), Remaining: o.TTL,
	}
	_, err = s.exec(ctx, `UPDATE agent_runs SET status = 'leased', lease_owner = ?, lease_epoch = ?, lease_expires_at = ?, retries = ?,
		updated_at = ? WHERE id = ?`, o.Owner, lease.Fence.Number, timeText(lease.ExpiresAt), r.Retries, timeText(now), r.ID)
	if err != nil {
		return lease, nil, fmt.Errorf("write lease of run %s: %w", r.ID, err)
	}
	return lease, nil, nil
}

func leased(r fence.Run) bool {
	return r.Status == fence.StatusLeased || r.Status == fence.StatusRunning
}

// endLease writes what becomes of a run that nobody holds any more.
func (s *session) endLease(ctx context.Context, r fence.Run, to fence.Status, now time.Time) error {
	_, err := s.exec(ctx, "UPDATE agent_runs SET status = ?, lease_owner = '', lease_expires_at = NULL, retries = ?, updated_at = ? WHERE id = ?",
		string(to), r.Retries, timeText(now), r.ID)
	if err != nil {
		return fmt.Errorf("end lease of run %s: %w", r.ID, err)
	}
	return nil
}

// holds reports whether the lease is the run's, whether expired or not.
func (s *session) holds(ctx context.Context, l fence.Lease) (fence.Run, error) {
	r, err := s.run(ctx, l.RunID)
	if errors.Is(err, fence.ErrNoRun) {
		return r, fmt.Errorf("run %s, lease %s: %w", l.RunID, l.Fence, fence.ErrLost)
	}
	if err != nil {
		return r, err
	}
	epoch, err := s.currentEpoch(ctx)
	if err != nil {
		return r, err
	}
	if !leased(r) || r.Owner != l.Fence.Owner || r.Number != l.Fence.Number || epoch != l.Fence.Epoch {
		return r, fmt.Errorf("run %s, lease %s: %w", l.RunID, l.Fence, fence.ErrLost)
	}
	return r, nil
}

func (s *session) verifyLease(ctx context.Context, l fence.Lease, now time.Time) error {
	r, err := s.holds(ctx, l)
	if err != nil {
		return err
	}
	if !now.Before(r.ExpiresAt) {
		return fmt.Errorf("run %s, lease %s: it has expired: %w", l.RunID, l.Fence, fence.ErrLost)
	}
	return nil
}

// VerifyLease implements [fence.Verifier].
func (l *Ledger) VerifyLease(ctx context.Context, lease fence.Lease) error {
	return l.readers.read(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		return s.verifyLease(ctx, lease, now)
	})
}

// Renew implements [fence.Storage].
func (l *Ledger) Renew(ctx context.Context, lease fence.Lease, ttl time.Duration) (fence.Lease, error) {
	if ttl <= 0 {
		return lease, &ledger.InvalidError{Field: "ttl", Reason: "must be positive"}
	}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		if err := s.verifyLease(ctx, lease, now); err != nil {
			return err
		}
		lease.ExpiresAt, lease.Remaining = now.Add(ttl), ttl
		_, err = s.exec(ctx, "UPDATE agent_runs SET lease_expires_at = ?, updated_at = ? WHERE id = ?", timeText(lease.ExpiresAt),
			timeText(now), lease.RunID)
		return err
	})
	if err != nil {
		return lease, fmt.Errorf("renew lease: %w", err)
	}
	return lease, nil
}

// Release implements [fence.Storage].
func (l *Ledger) Release(ctx context.Context, lease fence.Lease, to fence.Status) error {
	switch to {
	case fence.StatusReady, fence.StatusCompleted, fence.StatusFailed, fence.StatusCancelled:
	default:
		return &ledger.InvalidError{Field: "status", Reason: fmt.Sprintf("%q ends no lease; use ready, completed, failed or cancelled", to)}
	}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.holds(ctx, lease)
		if err != nil {
			return err
		}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		if to == fence.StatusCancelled {
			return s.cancelRun(ctx, r, lease.Fence.Owner, "released as cancelled", now)
		}
		return s.endLease(ctx, r, to, now)
	})
	if err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// CancelRun implements [fence.Storage].
func (l *Ledger) CancelRun(ctx context.Context, runID, by, reason string) error {
	if by == "" {
		return &ledger.InvalidError{Field: "by", Reason: "is empty; say who cancels"}
	}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		r, err := s.run(ctx, runID)
		switch {
		case err != nil:
			return err
		case r.Status == fence.StatusCancelled:
			return nil
		case r.Status.Terminal() && r.Status != fence.StatusQuarantined:
			return fmt.Errorf("run %s is %s: %w", runID, r.Status, fence.ErrEnded)
		}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		return s.cancelRun(ctx, r, by, reason, now)
	})
	if err != nil {
		return fmt.Errorf("cancel run: %w", err)
	}
	return nil
}

// cancelRun ends the run and cancels what it has not sent.
func (s *session) cancelRun(ctx context.Context, r fence.Run, by, reason string, now time.Time) error {
	if err := s.endLease(ctx, r, fence.StatusCancelled, now); err != nil {
		return err
	}
	var unsent []ledger.Key
	err := s.each(ctx, "SELECT effect_key FROM effect_intents WHERE run_id = ? AND state = 'intent'", []any{r.ID}, func(scan func(...any) error) error {
		k := ledger.Key{RunID: r.ID}
		err := scan(&k.EffectKey)
		unsent = append(unsent, k)
		return err
	})
	if err != nil {
		return fmt.Errorf("find unsent intents of run %s: %w", r.ID, err)
	}
	for _, k := range unsent {
		if _, err := s.move(ctx, k, ledger.RequestCancel{By: by, Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// ReclaimDead implements [fence.Storage].
func (l *Ledger) ReclaimDead(ctx context.Context, o fence.ReclaimOptions) (all []fence.Run, err error) {
	if o.ClockAllowance <= 0 {
		o.ClockAllowance = fence.DefaultClockAllowance
	}
	if o.ReclaimCeiling <= 0 {
		o.ReclaimCeiling = defaultReclaimCeiling
	}
	if o.Limit <= 0 {
		o.Limit = defaultReclaimLimit
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		all, err = s.reclaimDead(ctx, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reclaim dead runs: %w", err)
	}
	return all, nil
}

func (s *session) reclaimDead(ctx context.Context, o fence.ReclaimOptions) ([]fence.Run, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	var silent any // owners that were seen last before it are dead
	if o.HeartbeatTimeout > 0 {
		silent = timeText(now.Add(-o.HeartbeatTimeout))
	}
	var dead []fence.Run
	err = s.each(ctx, selectRun+`status IN ('leased', 'running') AND (lease_expires_at < ? OR lease_owner IN
		(SELECT e.id FROM engine_instances e WHERE e.last_seen < ?)) ORDER BY lease_expires_at LIMIT ?`,
		[]any{timeText(now.Add(-o.ClockAllowance)), silent, o.Limit}, func(scan func(...any) error) error {
			var r fence.Run
			err := scan(scanRun(&r)...)
			dead = append(dead, r)
			return err
		})
	if err != nil {
		return nil, err
	}
	for n := range dead {
		r := &dead[n]
		to := fence.StatusReady
		if r.Retries++; r.Retries > o.ReclaimCeiling {
			to = fence.StatusQuarantined
		}
		if err := s.endLease(ctx, *r, to, now); err != nil {
			return nil, err
		}
		r.Status, r.Owner, r.ExpiresAt, r.UpdatedAt = to, "", time.Time{}, now
	}
	return dead, nil
}
