package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/migrations"
)

// Migration is one step, applied or not.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time
}

// Migrate makes the file, for its owner only, if there is none and applies what it lacks, in one transaction that holds the write lock: any number of processes may
// start at once. It refuses a ledger of a newer version ([ledger.ErrNewer]). It returns what it applied.
func Migrate(ctx context.Context, o Options) (applied []Migration, err error) {
	o, err = o.validated()
	if err != nil {
		return nil, err
	}
	db, err := o.database(writerBusy, false)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, db.Close()); err != nil {
			err = fmt.Errorf("migrate ledger %s: %w", o.Path, err)
		}
	}()
	if err := makeFile(o.Path); err != nil {
		return nil, err
	}
	if err := writeAhead(ctx, db, o.StatementTimeout); err != nil {
		return nil, explainFile(err)
	}
	for give := time.Now().Add(o.StatementTimeout); ; {
		applied, err = migrateOnce(ctx, db)
		if err == nil || !busy(err) || time.Now().After(give) {
			return applied, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollBusy):
		}
	}
}

// makeFile makes an empty file that only its owner can read, where there is none: payloads are nobody else's business, and SQLite, which gives
// the files beside the ledger's the same mode, would let everybody read them. The file is closed before it gets its name: closing it beside
// SQLite would drop the locks that this process holds on it.
func makeFile(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return nil // SQLite says what is wrong with it, if anything is
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".ledger-*") // mode 0600
	if err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	err = temp.Close()
	if err == nil {
		if err = os.Link(temp.Name(), path); errors.Is(err, os.ErrExist) { // somebody was quicker
			err = nil
		}
	}
	if err = errors.Join(err, os.Remove(temp.Name())); err != nil {
		return fmt.Errorf("make the file (without hard links here, make it empty with mode 0600): %w", err)
	}
	return nil
}

func migrateOnce(ctx context.Context, db *sql.DB) (applied []Migration, err error) {
	tx, err := db.BeginTx(ctx, nil) // immediately: see dataSource
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { err = errors.Join(err, rollback(tx)) }()
	if _, err := tx.ExecContext(ctx, migrations.SQLiteCreateTable); err != nil {
		return nil, fmt.Errorf("make table of migrations: %w", err)
	}
	known, err := status(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, m := range known {
		if m.Applied {
			continue
		}
		if _, err := tx.ExecContext(ctx, m.sql); err != nil {
			return nil, fmt.Errorf("apply %s: %w", m.Name, err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+migrations.SQLiteTable+" (version_id, is_applied) VALUES (?, 1)", m.Version); err != nil {
			return nil, fmt.Errorf("record %s: %w", m.Name, err)
		}
		m.Applied = true
		applied = append(applied, m.Migration)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return applied, nil
}

// rollback is harmless after a commit.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// Status returns every migration that this program knows, oldest first. It makes no file: one that is not there has none applied.
func Status(ctx context.Context, o Options) (all []Migration, err error) {
	o, err = o.validated()
	if err != nil {
		return nil, err
	}
	var steps []step
	if _, err := os.Stat(o.Path); errors.Is(err, os.ErrNotExist) {
		steps, err = known(nil)
		if err != nil {
			return nil, err
		}
	} else if steps, err = fileStatus(ctx, o); err != nil {
		return nil, fmt.Errorf("migration status of %s: %w", o.Path, err)
	}
	for _, s := range steps {
		all = append(all, s.Migration)
	}
	return all, nil
}

func fileStatus(ctx context.Context, o Options) (steps []step, err error) {
	db, err := o.database(int(o.StatementTimeout/time.Millisecond), true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return status(ctx, db)
}

// step is a migration with what it does.
type step struct {
	Migration
	sql string
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// status compares what is applied with what this program knows: [ledger.ErrNewer] if it does not know all of it.
func status(ctx context.Context, db querier) ([]step, error) {
	var there bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)", migrations.SQLiteTable).Scan(&there)
	if err != nil {
		return nil, explainFile(fmt.Errorf("read the schema: %w", err))
	}
	if !there {
		return known(nil)
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, tstamp FROM "+migrations.SQLiteTable+" WHERE is_applied = 1")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	applied := map[int64]time.Time{}
	for rows.Next() {
		var v int64
		var at time.Time
		if err := rows.Scan(&v, scanTime{&at}); err != nil {
			return nil, errors.Join(fmt.Errorf("read migrations: %w", err), rows.Close())
		}
		applied[v] = at
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return known(applied)
}

// known lists the migrations of this program, with which of them are applied.
func known(applied map[int64]time.Time) (steps []step, err error) {
	files, err := migrations.SQLite()
	if err != nil {
		return nil, err
	}
	all, err := migrations.List(files)
	if err != nil {
		return nil, err
	}
	latest := int64(0)
	for _, m := range all {
		at, done := applied[m.Version]
		steps = append(steps, step{Migration{m.Version, m.Name, done, at}, m.SQL})
		latest = m.Version
	}
	for v := range applied {
		if v > latest {
			return nil, fmt.Errorf("%w: it has version %d, this program knows %d", ledger.ErrNewer, v, latest)
		}
	}
	return steps, nil
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
