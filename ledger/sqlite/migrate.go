package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/migrations"
)

// MigrationStatus says which migrations a ledger has.
type MigrationStatus struct {
	Version int64                  // the newest applied; 0 for none
	Latest  int64                  // the newest that this program knows
	Pending []migrations.Migration // known and not applied, oldest first
}

// Migrate makes the file if there is none and applies what it lacks, in one transaction that holds the write lock: any number of processes may
// start at once. It refuses a ledger of a newer version ([ledger.ErrNewer]). It returns what the ledger has afterwards.
func Migrate(ctx context.Context, o Options) (st MigrationStatus, err error) {
	o, err = o.validated()
	if err != nil {
		return st, err
	}
	db, err := o.database(writerBusy, false)
	if err != nil {
		return st, err
	}
	defer func() {
		if err = errors.Join(err, db.Close()); err != nil {
			err = fmt.Errorf("migrate ledger %s: %w", o.Path, err)
		}
	}()
	if err := writeAhead(ctx, db, o.StatementTimeout); err != nil {
		return st, explainFile(err)
	}
	for give := time.Now().Add(o.StatementTimeout); ; {
		st, err = migrateOnce(ctx, db)
		if err == nil || !busy(err) || time.Now().After(give) {
			return st, err
		}
		select {
		case <-ctx.Done():
			return st, ctx.Err()
		case <-time.After(pollBusy):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB) (st MigrationStatus, err error) {
	tx, err := db.BeginTx(ctx, nil) // immediately: see dataSource
	if err != nil {
		return st, fmt.Errorf("begin: %w", err)
	}
	defer func() { err = errors.Join(err, rollback(tx)) }()
	if _, err := tx.ExecContext(ctx, migrations.SQLiteCreateTable); err != nil {
		return st, fmt.Errorf("make table of migrations: %w", err)
	}
	if st, err = status(ctx, tx); err != nil {
		return st, err
	}
	if st.Version > st.Latest {
		return st, fmt.Errorf("%w: it has version %d, this program knows %d", ledger.ErrNewer, st.Version, st.Latest)
	}
	for _, m := range st.Pending {
		if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
			return st, fmt.Errorf("apply %s: %w", m.Name, err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+migrations.SQLiteTable+" (version_id, is_applied) VALUES (?, 1)", m.Version); err != nil {
			return st, fmt.Errorf("record %s: %w", m.Name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return st, fmt.Errorf("commit: %w", err)
	}
	return MigrationStatus{Version: st.Latest, Latest: st.Latest}, nil
}

// rollback is harmless after a commit.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Status says which migrations the ledger has. It makes no file: a file that is not there has none.
func Status(ctx context.Context, o Options) (st MigrationStatus, err error) {
	o, err = o.validated()
	if err != nil {
		return st, err
	}
	if _, err := os.Stat(o.Path); errors.Is(err, os.ErrNotExist) {
		return pending(nil)
	}
	db, err := o.database(int(o.StatementTimeout/time.Millisecond), true)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return status(ctx, db)
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func status(ctx context.Context, db querier) (MigrationStatus, error) {
	var there bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)", migrations.SQLiteTable).Scan(&there)
	if err != nil {
		return MigrationStatus{}, explainFile(fmt.Errorf("read the schema: %w", err))
	}
	if !there {
		return pending(nil)
	}
	applied := map[int64]bool{}
	rows, err := db.QueryContext(ctx, "SELECT version_id FROM "+migrations.SQLiteTable+" WHERE is_applied = 1")
	if err != nil {
		return MigrationStatus{}, fmt.Errorf("read migrations: %w", err)
	}
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			return MigrationStatus{}, errors.Join(err, rows.Close())
		}
		applied[v] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return MigrationStatus{}, fmt.Errorf("read migrations: %w", err)
	}
	return pending(applied)
}

// pending compares what is applied with what this program knows.
func pending(applied map[int64]bool) (st MigrationStatus, err error) {
	files, err := migrations.SQLite()
	if err != nil {
		return st, err
	}
	all, err := migrations.List(files)
	if err != nil {
		return st, err
	}
	for _, m := range all {
		st.Latest = m.Version
		if !applied[m.Version] {
			st.Pending = append(st.Pending, m)
		}
	}
	for v := range applied {
		st.Version = max(st.Version, v)
	}
	return st, nil
}

// explainFile says what to do about a file that SQLite will not have.
func explainFile(err error) error {
	switch code(err) {
	case codeNotADB:
		return fmt.Errorf("the file is not an SQLite database; name another one: %w", err)
	case codeReadOnly, codeCantOpen:
		return fmt.Errorf("the file or its folder cannot be written by this user: %w", err)
	}
	return err
}
