package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const defaultReclaimLimit = 100

const selectRun = `SELECT id, status, lease_owner, lease_epoch, lease_expires_at, retries, coalesce(idempotency_key, ''), created_at, updated_at
	FROM agent_runs WHERE `

func scanRun(r *fence.Run) []any {
	return []any{&r.ID, &r.Status, &r.Owner, &r.Number, scanTime{&r.ExpiresAt}, &r.Retries, &r.IdempotencyKey, scanTime{&r.CreatedAt},
		scanTime{&r.UpdatedAt}}
}

// CreateRun implements [fence.Storage].
func (l *Ledger) CreateRun(ctx context.Context, run fence.NewRun) (r fence.Run, created bool, err error) {
	if err := l.ownLeases(); err != nil {
		return r, false, fmt.Errorf("create run: %w", err)
	}
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
		return r, fence.ErrNoRun
	}
	return r, nil
}

// Run implements [fence.Storage].
func (l *Ledger) Run(ctx context.Context, runID string) (r fence.Run, err error) {
	if err := l.ownLeases(); err != nil {
		return r, fmt.Errorf("run: %w", err)
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		r, err = s.run(ctx, runID)
		return err
	})
	return r, err
}

// CancelRun implements [fence.Storage].
func (l *Ledger) CancelRun(ctx context.Context, runID, by, reason string) error {
	if by == "" {
		return &ledger.InvalidError{Field: "by", Reason: "is empty; say who cancels"}
	}
	if err := l.ownLeases(); err != nil {
		return fmt.Errorf("cancel run: %w", err)
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
