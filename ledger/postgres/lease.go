package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/fence"
)

// leaseRow is a run's lease as it stands, share-locked, with the clock read after the lock was got.
type leaseRow struct {
	status  string
	owner   string
	number  int64
	expires *time.Time
	now     time.Time
	epoch   int64 // the ledger's
	hosted  bool  // it is the host's own, who may know nothing of epochs
}

func (r *leaseRow) targets() []any {
	return []any{&r.status, &r.owner, &r.number, &r.expires, &r.now, &r.epoch}
}

// holds reports whether the lease is the run's and has not expired. A nil row is a run that is not there.
func (r *leaseRow) holds(l fence.Lease) bool {
	return r != nil && (r.status == string(fence.StatusLeased) || r.status == string(fence.StatusRunning)) && r.owner == l.Fence.Owner &&
		r.number == l.Fence.Number && (r.epoch == l.Fence.Epoch || r.hosted && l.Fence.Epoch == 0) && r.expires != nil && r.now.Before(*r.expires)
}

func (l *Ledger) leaseRow() *leaseRow { return &leaseRow{hosted: l.hosted != nil} }

func (s *session) queueLease(l fence.Lease, into **leaseRow) {
	s.queue(s.l.sql.lease, l.RunID).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			row := s.l.leaseRow()
			if err := rows.Scan(row.targets()...); err != nil {
				return err
			}
			*into = row
		}
		return rows.Err()
	})
}

// verifyLease checks a lease in the caller's transaction and keeps it as it is until that ends.
func verifyLease(ctx context.Context, l *Ledger, e executor, lease fence.Lease) error {
	var row *leaseRow
	err := each(ctx, e, func(r rows) error {
		row = l.leaseRow()
		return r.Scan(row.targets()...)
	}, l.sql.lease, lease.RunID)
	if err != nil {
		return err
	}
	if !row.holds(lease) {
		return fmt.Errorf("verify lease of run %s: %w", lease.RunID, fence.ErrLost)
	}
	return nil
}

// VerifyLease returns nil if the lease is held and has not expired, else [fence.ErrLost]. It waits for nobody.
func (l *Ledger) VerifyLease(ctx context.Context, lease fence.Lease) error {
	if !isUUID(lease.RunID) {
		return fence.ErrLost
	}
	row := l.leaseRow()
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(l.sql.verify, lease.RunID).QueryRow(func(r pgx.Row) error { return r.Scan(row.targets()...) })
		return s.flush(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fence.ErrLost
	}
	if err != nil {
		return err
	}
	if !row.holds(lease) {
		return fence.ErrLost
	}
	return nil
}
