package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// defaultReclaims is how often a run may be reclaimed before it is quarantined.
	defaultReclaims = 5
	// defaultReclaimPage bounds one call of ReclaimDead.
	defaultReclaimPage = 100
	// maxIdempotencyKey bounds an idempotency key, in bytes.
	maxIdempotencyKey = 512
)

const runColumns = `id::text, status, lease_owner, lease_epoch, lease_expires_at, retries, coalesce(idempotency_key, ''), created_at, updated_at`

func isUUID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

type runRow struct {
	run     fence.Run
	expires *time.Time
}

func (r *runRow) scan(row pgx.Row, more ...any) error {
	err := row.Scan(append([]any{&r.run.ID, (*string)(&r.run.Status), &r.run.Owner, &r.run.Number, &r.expires, &r.run.Retries,
		&r.run.IdempotencyKey, &r.run.CreatedAt, &r.run.UpdatedAt}, more...)...)
	r.run.ExpiresAt = utc(r.expires)
	r.run.CreatedAt, r.run.UpdatedAt = r.run.CreatedAt.UTC(), r.run.UpdatedAt.UTC()
	return err
}

// CreateRun inserts a run in state ready, or returns the one that is there. [fence.Storage].
func (l *Ledger) CreateRun(ctx context.Context, n fence.NewRun) (fence.Run, bool, error) {
	if err := l.ownLeases(); err != nil {
		return fence.Run{}, false, fmt.Errorf("create run: %w", err)
	}
	id, err := runID(n)
	if err != nil {
		return fence.Run{}, false, err
	}
	var key any
	if n.IdempotencyKey != "" {
		key = n.IdempotencyKey
	}
	var row runRow
	created := false
	err = l.transact(ctx, func(ctx context.Context, s *session) error {
		created = false
		s.queue(fmt.Sprintf(`INSERT INTO %s (id, idempotency_key) VALUES ($1::uuid, $2::text) ON CONFLICT DO NOTHING RETURNING true`, l.table("agent_runs")), id, key).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					created = true
				}
				return rows.Err()
			})
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE id = $1::uuid OR idempotency_key = $2::text ORDER BY idempotency_key = $2::text DESC NULLS LAST LIMIT 1`,
			runColumns, l.table("agent_runs")), id, key).QueryRow(func(r pgx.Row) error { return row.scan(r) })
		return s.commit(ctx)
	})
	return row.run, created, err
}

// runID chooses the id of a new run.
func runID(n fence.NewRun) (string, error) {
	if len(n.IdempotencyKey) > maxIdempotencyKey || strings.ContainsRune(n.IdempotencyKey, 0) {
		return "", &ledger.InvalidError{Field: "idempotency_key", Reason: fmt.Sprintf("must be text of at most %d bytes", maxIdempotencyKey)}
	}
	if n.ID != "" {
		id := strings.ToLower(n.ID)
		if !isUUID(id) {
			return "", &ledger.InvalidError{Field: "id", Reason: fmt.Sprintf("%.64q is not a UUID", n.ID)}
		}
		return id, nil
	}
	if n.IdempotencyKey != "" {
		if id, err := canonical.ResourceRunID(n.IdempotencyKey); err == nil {
			return id, nil
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// Run returns one run. [fence.ErrNoRun].
func (l *Ledger) Run(ctx context.Context, id string) (fence.Run, error) {
	if err := l.ownLeases(); err != nil {
		return fence.Run{}, fmt.Errorf("run: %w", err)
	}
	if !isUUID(id) {
		return fence.Run{}, fence.ErrNoRun
	}
	var row runRow
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE id = $1::uuid`, runColumns, l.table("agent_runs")), id).
			QueryRow(func(r pgx.Row) error { return row.scan(r) })
		return s.flush(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fence.Run{}, fence.ErrNoRun
	}
	return row.run, err
}

// lockRun locks a run and reads the clock after that.
func (s *session) lockRun(ctx context.Context, id string) (run fence.Run, c clock, err error) {
	if !isUUID(id) {
		return run, c, fence.ErrNoRun
	}
	var row runRow
	s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE id = $1::uuid FOR UPDATE`, runColumns, s.l.table("agent_runs")), id).
		QueryRow(func(r pgx.Row) error { return row.scan(r) })
	s.queue(`SELECT clock_timestamp(), max(epoch) FROM ` + s.l.table("ledger_epochs")).QueryRow(func(r pgx.Row) error { return r.Scan(&c.now, &c.epoch) })
	err = s.flush(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fence.ErrNoRun
	}
	c.now = c.now.UTC()
	return row.run, c, err
}

// clock is the database's time and the ledger's epoch.
type clock struct {
	now   time.Time
	epoch int64
}

func (s *session) queueRun(r fence.Run, now time.Time) {
	var expires any
	if !r.ExpiresAt.IsZero() {
		expires = r.ExpiresAt
	}
	s.queue(fmt.Sprintf(`UPDATE %s SET status = $2, lease_owner = $3, lease_epoch = $4, lease_expires_at = $5, retries = $6, updated_at = $7
WHERE id = $1::uuid`, s.l.table("agent_runs")), r.ID, string(r.Status), r.Owner, r.Number, expires, r.Retries, now)
}

func leaseOf(r fence.Run, c clock) fence.Lease {
	return fence.Lease{
		RunID: r.ID, Fence: fence.Fence{Epoch: c.epoch, Number: r.Number, Owner: r.Owner}, ExpiresAt: r.ExpiresAt, Remaining: r.ExpiresAt.Sub(c.now),
	}
}

func leased(r fence.Run) bool {
	return r.Status == fence.StatusLeased || r.Status == fence.StatusRunning
}

// Acquire takes the lease of a run. [fence.Storage].
func (l *Ledger) Acquire(ctx context.Context, id string, o fence.AcquireOptions) (fence.Lease, error) {
	if err := l.ownLeases(); err != nil {
		return fence.Lease{}, fmt.Errorf("acquire: %w", err)
	}
	switch {
	case o.TTL <= 0:
		return fence.Lease{}, &ledger.InvalidError{Field: "ttl", Reason: "must be positive"}
	case o.Owner == "":
		return fence.Lease{}, &ledger.InvalidError{Field: "owner", Reason: "name the instance that takes the lease"}
	}
	if o.ClockAllowance <= 0 {
		o.ClockAllowance = fence.DefaultClockAllowance
	}
	if o.ReclaimCeiling <= 0 {
		o.ReclaimCeiling = defaultReclaims
	}
	var lease fence.Lease
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		r, c, err := s.lockRun(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case r.Status == fence.StatusQuarantined:
			return fence.ErrQuarantined
		case r.Status.Terminal():
			return fence.ErrEnded
		case leased(r):
			if !c.now.After(r.ExpiresAt.Add(o.ClockAllowance)) {
				return fence.ErrHeld
			}
			r.Retries++
			if r.Retries > o.ReclaimCeiling {
				r.Status, r.Owner, r.ExpiresAt = fence.StatusQuarantined, "", time.Time{}
				s.queueRun(r, c.now)
				if err := s.commit(ctx); err != nil {
					return err
				}
				return fence.ErrQuarantined
			}
		}
		r.Status, r.Owner, r.Number, r.ExpiresAt = fence.StatusLeased, o.Owner, r.Number+1, c.now.Add(o.TTL)
		s.queueRun(r, c.now)
		lease = leaseOf(r, c)
		return s.commit(ctx)
	})
	if err != nil {
		return fence.Lease{}, err
	}
	return lease, nil
}

// Renew moves the expiry to now + ttl. [fence.ErrLost].
func (l *Ledger) Renew(ctx context.Context, lease fence.Lease, ttl time.Duration) (fence.Lease, error) {
	if err := l.ownLeases(); err != nil {
		return fence.Lease{}, fmt.Errorf("renew: %w", err)
	}
	if ttl <= 0 {
		return fence.Lease{}, &ledger.InvalidError{Field: "ttl", Reason: "must be positive"}
	}
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		r, c, err := s.lockHeld(ctx, lease)
		if err != nil {
			return err
		}
		r.ExpiresAt = c.now.Add(ttl)
		s.queueRun(r, c.now)
		lease = leaseOf(r, c)
		return s.commit(ctx)
	})
	if err != nil {
		return fence.Lease{}, err
	}
	return lease, nil
}

// lockHeld locks a run whose lease this is. [fence.ErrLost].
func (s *session) lockHeld(ctx context.Context, lease fence.Lease) (fence.Run, clock, error) {
	r, c, err := s.lockRun(ctx, lease.RunID)
	if errors.Is(err, fence.ErrNoRun) {
		err = fence.ErrLost
	}
	if err == nil && (!leased(r) || r.Number != lease.Fence.Number || r.Owner != lease.Fence.Owner ||
		c.epoch != lease.Fence.Epoch || !c.now.Before(r.ExpiresAt)) {
		err = fence.ErrLost
	}
	return r, c, err
}

// Release ends the lease. [fence.ErrLost].
func (l *Ledger) Release(ctx context.Context, lease fence.Lease, to fence.Status) error {
	if err := l.ownLeases(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	switch to {
	case fence.StatusReady, fence.StatusCompleted, fence.StatusFailed, fence.StatusCancelled:
	default:
		return &ledger.InvalidError{Field: "status", Reason: fmt.Sprintf("a lease ends as ready, completed, failed or cancelled, not as %q", to)}
	}
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		r, c, err := s.lockHeld(ctx, lease)
		if err != nil {
			return err
		}
		r.Status, r.Owner, r.ExpiresAt = to, "", time.Time{}
		s.queueRun(r, c.now)
		return s.commit(ctx)
	})
}

// CancelRun ends a run whoever holds it, and cancels its unsent intents in the same transaction. Intents that are being sent stop at
// their next reopen. [fence.ErrNoRun].
func (l *Ledger) CancelRun(ctx context.Context, id, by, reason string) error {
	if err := l.ownLeases(); err != nil {
		return fmt.Errorf("cancel run: %w", err)
	}
	if by == "" {
		return &ledger.InvalidError{Field: "by", Reason: "say who cancels"}
	}
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		r, c, err := s.lockRun(ctx, id)
		if err != nil {
			return err
		}
		if r.Status != fence.StatusCancelled && r.Status != fence.StatusQuarantined && r.Status.Terminal() {
			return fence.ErrEnded
		}
		r.Status, r.Owner, r.ExpiresAt = fence.StatusCancelled, "", time.Time{}
		s.queueRun(r, c.now)
		var live []*intentRow
		var keys []ledger.Key
		s.queue(fmt.Sprintf(`SELECT %s FROM %s i WHERE i.run_id = $1::uuid AND i.state IN ('intent', 'dispatched') ORDER BY i.effect_key FOR UPDATE`,
			intentColumns, l.table("effect_intents")), id).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				row := &intentRow{}
				if err := rows.Scan(row.targets()...); err != nil {
					return err
				}
				if err := row.finish(); err != nil {
					return err
				}
				live, keys = append(live, row), append(keys, row.intent.Key)
			}
			return rows.Err()
		})
		if err := s.flush(ctx); err != nil {
			return err
		}
		var beside []around
		if len(keys) > 0 {
			s.queueAround(keys, &beside)
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
		w := &writer{l: l}
		for n, row := range live {
			held := l.snapshot(row.intent.Key, row, beside[n])
			change, err := s.decide(ctx, w, held, ledger.RequestCancel{By: by, Reason: reason})
			if errors.Is(err, ledger.ErrTerminal) {
				continue
			}
			if err != nil {
				return err
			}
			if err := w.add(held, change); err != nil {
				return err
			}
		}
		w.queue(s)
		return s.commit(ctx)
	})
}

// ReclaimDead sets free, or quarantines, runs whose holder is dead. Rows that are locked are left for the next call. [fence.Storage].
func (l *Ledger) ReclaimDead(ctx context.Context, o fence.ReclaimOptions) ([]fence.Run, error) {
	if o.ClockAllowance <= 0 {
		o.ClockAllowance = fence.DefaultClockAllowance
	}
	if o.ReclaimCeiling <= 0 {
		o.ReclaimCeiling = defaultReclaims
	}
	if o.Limit <= 0 {
		o.Limit = defaultReclaimPage
	}
	var silent any
	if o.HeartbeatTimeout > 0 {
		silent = o.HeartbeatTimeout.Microseconds()
	}
	sql := fmt.Sprintf(`WITH dead AS MATERIALIZED (SELECT r.id FROM %[1]s r WHERE r.status IN ('leased', 'running')
AND (r.lease_expires_at + $1::bigint * interval '1 microsecond' < clock_timestamp()
 OR EXISTS (SELECT FROM %[2]s e WHERE e.id = r.lease_owner AND e.last_seen + $2::bigint * interval '1 microsecond' < clock_timestamp()))
ORDER BY r.lease_expires_at LIMIT $3 FOR UPDATE OF r SKIP LOCKED)
UPDATE %[1]s r SET status = CASE WHEN r.retries + 1 > $4 THEN 'quarantined' ELSE 'ready' END, lease_owner = '', lease_expires_at = NULL,
retries = r.retries + 1, updated_at = clock_timestamp() FROM dead WHERE r.id = dead.id
RETURNING r.id::text, r.status, r.lease_owner, r.lease_epoch, r.lease_expires_at, r.retries, coalesce(r.idempotency_key, ''), r.created_at, r.updated_at`,
		l.table("agent_runs"), l.table("engine_instances"))
	var all []fence.Run
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(sql, o.ClockAllowance.Microseconds(), silent, o.Limit, o.ReclaimCeiling).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var row runRow
				if err := row.scan(rows); err != nil {
					return err
				}
				all = append(all, row.run)
			}
			return rows.Err()
		})
		return s.commit(ctx)
	})
	return all, err
}

// Heartbeat records that the instance is alive, on the database's clock; with StoppedAt set, that it stopped. [fence.Storage].
func (l *Ledger) Heartbeat(ctx context.Context, i fence.Instance) error {
	if i.ID == "" {
		return &ledger.InvalidError{Field: "id", Reason: "an instance needs an id of its own for every process start"}
	}
	sql := fmt.Sprintf(`INSERT INTO %s AS e (id, host, process, version, started_at, last_seen, stopped_at)
VALUES ($1, $2, $3, $4, coalesce($5, clock_timestamp()), clock_timestamp(), CASE WHEN $6::boolean THEN clock_timestamp() END)
ON CONFLICT (id) DO UPDATE SET last_seen = clock_timestamp(), stopped_at = CASE WHEN $6::boolean THEN clock_timestamp() ELSE e.stopped_at END`,
		l.table("engine_instances"))
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue(sql, i.ID, i.Host, i.Process, i.Version, timeOrNull(i.StartedAt), !i.StoppedAt.IsZero())
		return s.commit(ctx)
	})
}

// Instances returns every instance that was seen, newest first.
func (l *Ledger) Instances(ctx context.Context) ([]fence.Instance, error) {
	var all []fence.Instance
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(`SELECT id, host, process, version, started_at, last_seen, stopped_at, clock_timestamp() FROM ` + l.table("engine_instances") +
			` ORDER BY started_at DESC, id`).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var i fence.Instance
				var stopped *time.Time
				var now time.Time
				if err := rows.Scan(&i.ID, &i.Host, &i.Process, &i.Version, &i.StartedAt, &i.LastSeen, &stopped, &now); err != nil {
					return err
				}
				i.StartedAt, i.LastSeen, i.StoppedAt = i.StartedAt.UTC(), i.LastSeen.UTC(), utc(stopped)
				i.Age = max(now.Sub(i.LastSeen), 0)
				all = append(all, i)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}
