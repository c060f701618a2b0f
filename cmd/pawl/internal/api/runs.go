package api

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// maxTTL bounds a lease.
const maxTTL = 24 * time.Hour

// CreateRun makes a run, or returns the one that is there.
func (s *Service) CreateRun(ctx context.Context, r pawlclient.NewRun) (pawlclient.Run, bool, error) {
	if err := checkText("body.idempotency_key", r.IdempotencyKey, 512); err != nil {
		return pawlclient.Run{}, false, err
	}
	n := fence.NewRun{IdempotencyKey: r.IdempotencyKey}
	if r.ID != "" {
		id, err := runID("body.id", r.ID)
		if err != nil {
			return pawlclient.Run{}, false, err
		}
		n.ID = id
	}
	run, created, err := s.ledger.CreateRun(ctx, n)
	return viewRun(run), created, problem(err, "body")
}

func viewRun(r fence.Run) pawlclient.Run {
	return pawlclient.Run{
		ID: r.ID, Status: string(r.Status), Owner: r.Owner, Number: r.Number, ExpiresAt: r.ExpiresAt, Retries: r.Retries,
		IdempotencyKey: r.IdempotencyKey, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Run returns one run.
func (s *Service) Run(ctx context.Context, id string) (pawlclient.Run, error) {
	id, err := runID("path.run_id", id)
	if err != nil {
		return pawlclient.Run{}, err
	}
	r, err := s.ledger.Run(ctx, id)
	return viewRun(r), problem(err, "path")
}

// CancelRun ends a run, whoever holds it, and cancels its unsent intents.
func (s *Service) CancelRun(ctx context.Context, id string, c pawlclient.Cancel) (pawlclient.Run, error) {
	id, err := runID("path.run_id", id)
	if err != nil {
		return pawlclient.Run{}, err
	}
	a, err := s.action(ctx, "run.cancel", id, c.By, c.Reason)
	if err != nil {
		return pawlclient.Run{}, err
	}
	err = s.audited(ctx, a, func() error { return problem(s.ledger.CancelRun(ctx, id, a.by, c.Reason), "body") })
	if err != nil {
		return pawlclient.Run{}, err
	}
	return s.Run(ctx, id)
}

// AcquireLease takes a run's lease.
func (s *Service) AcquireLease(ctx context.Context, id string, a pawlclient.AcquireLease) (pawlclient.Lease, error) {
	id, err := runID("path.run_id", id)
	if err != nil {
		return pawlclient.Lease{}, err
	}
	if err := needText("body.owner", a.Owner, maxBy, "name the worker that takes it"); err != nil {
		return pawlclient.Lease{}, err
	}
	ttl, err := ttlOf(a.TTL)
	if err != nil {
		return pawlclient.Lease{}, err
	}
	if a.ReclaimCeiling < 0 || a.ReclaimCeiling > math.MaxInt32 {
		return pawlclient.Lease{}, invalid("body.reclaim_ceiling", "must be between 0 and %d", math.MaxInt32)
	}
	l, err := s.ledger.Acquire(ctx, id, fence.AcquireOptions{Owner: a.Owner, TTL: ttl, ClockAllowance: s.allowance, ReclaimCeiling: a.ReclaimCeiling})
	return viewLease(l), problem(err, "body")
}

func ttlOf(seconds float64) (time.Duration, error) {
	if !(seconds >= 0.1 && seconds <= maxTTL.Seconds()) { // also not a number
		return 0, invalid("body.ttl_seconds", "must be between 0.1 and %.0f seconds", maxTTL.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func viewLease(l fence.Lease) pawlclient.Lease {
	return pawlclient.Lease{
		RunID: l.RunID, Epoch: l.Fence.Epoch, Number: l.Fence.Number, Owner: l.Fence.Owner, ExpiresAt: l.ExpiresAt, Remaining: l.Remaining.Seconds(),
	}
}

// RenewLease moves a lease's expiry.
func (s *Service) RenewLease(ctx context.Context, r pawlclient.RenewLease) (pawlclient.Lease, error) {
	l, err := leaseOf(r.Lease, "body.lease")
	if err != nil {
		return pawlclient.Lease{}, err
	}
	ttl, err := ttlOf(r.TTL)
	if err != nil {
		return pawlclient.Lease{}, err
	}
	l, err = s.ledger.Renew(ctx, l, ttl)
	return viewLease(l), problem(err, "body")
}

// VerifyLease returns nil while the lease is held.
func (s *Service) VerifyLease(ctx context.Context, l pawlclient.Lease) error {
	lease, err := leaseOf(l, "body")
	if err != nil {
		return err
	}
	return problem(s.ledger.VerifyLease(ctx, lease), "body")
}

// ReleaseLease ends a lease.
func (s *Service) ReleaseLease(ctx context.Context, r pawlclient.ReleaseLease) error {
	l, err := leaseOf(r.Lease, "body.lease")
	if err != nil {
		return err
	}
	ends := []fence.Status{fence.StatusReady, fence.StatusCompleted, fence.StatusFailed, fence.StatusCancelled}
	if !slices.Contains(ends, fence.Status(r.To)) {
		return invalid("body.to", "must be ready, completed, failed or cancelled")
	}
	return problem(s.ledger.Release(ctx, l, fence.Status(r.To)), "body")
}
