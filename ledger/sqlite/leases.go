package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const defaultReclaimCeiling = 5

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
	if err := l.ownLeases(); err != nil {
		return lease, fmt.Errorf("acquire lease: %w", err)
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
	if s.l.hosted != nil {
		return s.verifyHostLease(ctx, l, now)
	}
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
	if err := l.ownLeases(); err != nil {
		return lease, fmt.Errorf("renew lease: %w", err)
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
	if err := l.ownLeases(); err != nil {
		return fmt.Errorf("release lease: %w", err)
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
