package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// Tx makes the handle that a claim takes from a transaction of the caller's, on the database that holds the ledger.
func Tx(tx pgx.Tx) ledger.Tx { return ledger.SealTx(pgxTx{tx}) }

// SQLTx does the same for database/sql, with any Postgres driver.
func SQLTx(tx *sql.Tx) ledger.Tx { return ledger.SealTx(sqlTx{tx}) }

// executor runs statements in the caller's transaction. Parameters are texts and numbers only, so that every driver can pass them.
type executor interface {
	query(ctx context.Context, sql string, args ...any) (rows, error)
	exec(ctx context.Context, sql string, args ...any) (affected int64, err error)
}

// rows is what the drivers' rows have in common.
type rows interface {
	Next() bool
	Scan(targets ...any) error
	Err() error
	close()
}

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) query(ctx context.Context, sql string, args ...any) (rows, error) {
	r, err := t.tx.Query(ctx, sql, args...)
	return pgxRows{r}, err
}

func (t pgxTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

type pgxRows struct{ pgx.Rows }

func (r pgxRows) close() { r.Close() }

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) query(ctx context.Context, sql string, args ...any) (rows, error) {
	r, err := t.tx.QueryContext(ctx, sql, args...)
	return sqlRows{r}, err
}

func (t sqlTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) close() { _ = r.Rows.Close() } // what went wrong is in Err

// executorOf opens a handle; it refuses another backend's and the zero Tx.
func executorOf(tx ledger.Tx) (executor, error) {
	e, ok := tx.Handle().(executor)
	if !ok {
		return nil, &ledger.InvalidError{Field: "tx", Reason: fmt.Sprintf("%T is no Postgres transaction; use postgres.Tx or postgres.SQLTx", tx.Handle())}
	}
	return e, nil
}

// each runs a query and calls f for every row.
func each(ctx context.Context, e executor, f func(r rows) error, sql string, args ...any) error {
	r, err := e.query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer r.close()
	for r.Next() {
		if err := f(r); err != nil {
			return err
		}
	}
	return r.Err()
}

// jsonText is v as JSON, for json_to_recordset. v holds texts, numbers and times only.
func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(raw)
}

// InTx runs f in a transaction of the ledger's own, again while the database asks for it, and commits. [ledger.Ledger].
func (l *Ledger) InTx(ctx context.Context, f func(tx ledger.Tx) error) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	return l.retry(ctx, func(ctx context.Context) (committing bool, err error) {
		conn, err := l.pool.Acquire(ctx)
		if err != nil {
			return false, err
		}
		s := &session{l: l, conn: conn, batch: &pgx.Batch{}}
		defer s.end()
		tx := &ownTx{conn: conn}
		s.queue("SELECT 1")
		if err := s.flush(ctx); err != nil {
			return false, err
		}
		if err := f(ledger.SealTx(tx)); err != nil {
			if sqlState(err) == "" && !conn.Conn().IsClosed() {
				err = &callerFault{err} // not the database's: running f again would not help
			}
			return false, err
		}
		err = s.commit(ctx)
		return s.committing && !s.done, err
	})
}

// ownTx is the handle that InTx hands out.
type ownTx struct {
	conn interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (t *ownTx) query(ctx context.Context, sql string, args ...any) (rows, error) {
	r, err := t.conn.Query(ctx, sql, args...)
	return pgxRows{r}, err
}

func (t *ownTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	r, err := t.conn.Query(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	r.Close()
	return r.CommandTag().RowsAffected(), r.Err()
}
