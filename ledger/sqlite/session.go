package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// session is one transaction, our own or a caller's, with everything that runs in it.
type session struct {
	l        *Ledger
	prepare  func(ctx context.Context, query string) (*sql.Stmt, error)
	readOnly bool
	caller   bool            // the transaction is a caller's own
	over     bool            // it has ended; a handle that was kept is refused
	life     ledger.EpochRow // the present one, once it was read
	reserved time.Time       // see ledgerClock.until
}

func (s *session) exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	r, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads exactly one row.
func (s *session) row(ctx context.Context, query string, args []any, into ...any) error {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(ctx, args...).Scan(into...)
}

// find reads one row, if there is one.
func (s *session) find(ctx context.Context, query string, args []any, into ...any) (bool, error) {
	err := s.row(ctx, query, args, into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls f for every row.
func (s *session) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) (err error) {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
