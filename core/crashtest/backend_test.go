package crashtest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/core/crashtest"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// backend opens ledgers of one kind, and a transaction of the caller's own beside them, as a program would that changes state of
// its own together with the claim.
type backend struct {
	name string
	// shared says that all worlds of a test use one ledger, each with a channel of its own: a database for each would cost more than
	// the test.
	shared bool
	// fresh makes an empty, migrated ledger with the caller's table, and returns where it is.
	fresh func(t *testing.T, dir string) string
	// open opens it; points may be nil.
	open func(ctx context.Context, at string, signer ledger.Signer, points *crashtest.Points) (ledger.Ledger, error)
	// change claims in the caller's own transaction, together with the caller's own row.
	change func(ctx context.Context, at string, l ledger.Ledger, c ledger.Claim, points *crashtest.Points) error
	// rows counts the caller's own rows.
	rows func(ctx context.Context, at, effectKey string) (int, error)
}

const (
	createCaller = `CREATE TABLE caller_state (effect_key text PRIMARY KEY)`
	insertCaller = `INSERT INTO caller_state (effect_key) VALUES ($1) ON CONFLICT DO NOTHING`
	countCaller  = `SELECT count(*) FROM caller_state WHERE effect_key = $1`
)

var onSQLite = backend{
	name: "sqlite",
	fresh: func(t *testing.T, dir string) string {
		path := filepath.Join(dir, "ledger.db")
		if _, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: path}); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.ExecContext(t.Context(), createCaller); err != nil {
			t.Fatal(err)
		}
		return path
	},
	open: func(ctx context.Context, at string, signer ledger.Signer, points *crashtest.Points) (ledger.Ledger, error) {
		o := sqlite.Options{Path: at, Signer: signer}
		if points != nil {
			o.Connector = func(c driver.Connector) driver.Connector { return &crashtest.Connector{Connector: c, Points: points} }
		}
		return sqlite.Open(ctx, o)
	},
	change: func(ctx context.Context, at string, l ledger.Ledger, c ledger.Claim, points *crashtest.Points) error {
		plain, err := sql.Open("sqlite", at+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
		if err != nil {
			return err
		}
		defer func() { _ = plain.Close() }()
		db := plain
		if points != nil {
			db = sql.OpenDB(&crashtest.Connector{Connector: dsnConnector{plain.Driver(), at + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"}, Points: points})
			defer func() { _ = db.Close() }()
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, insertCaller, c.EffectKey); err != nil {
			return err
		}
		if _, err := l.Claim(ctx, sqlite.Tx(tx), c); err != nil {
			return err
		}
		return tx.Commit()
	},
	rows: func(ctx context.Context, at, effectKey string) (n int, err error) {
		db, err := sql.Open("sqlite", at+"?_pragma=busy_timeout(5000)")
		if err != nil {
			return 0, err
		}
		defer func() { _ = db.Close() }()
		return n, db.QueryRowContext(ctx, countCaller, effectKey).Scan(&n)
	},
}

// dsnConnector opens connections of a driver that has no connector of its own.
type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

var onPostgres = backend{
	name:   "postgres",
	shared: true,
	fresh: func(t *testing.T, _ string) string {
		url := pgtest.Database(t)
		if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url}); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(t.Context(), createCaller); err != nil {
			t.Fatal(err)
		}
		return url
	},
	open: func(ctx context.Context, at string, signer ledger.Signer, points *crashtest.Points) (ledger.Ledger, error) {
		o := postgres.Options{URL: at, Signer: signer, MaxConns: 4}
		if points != nil {
			o.Tracer = crashtest.Tracer{Points: points}
		}
		return postgres.Open(ctx, o)
	},
	change: func(ctx context.Context, at string, l ledger.Ledger, c ledger.Claim, points *crashtest.Points) error {
		config, err := pgxpool.ParseConfig(at)
		if err != nil {
			return err
		}
		if points != nil {
			config.ConnConfig.Tracer = crashtest.Tracer{Points: points}
		}
		config.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insertCaller, c.EffectKey); err != nil {
				return err
			}
			_, err := l.Claim(ctx, postgres.Tx(tx), c)
			return err
		})
	},
	rows: func(ctx context.Context, at, effectKey string) (n int, err error) {
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close(context.Background()) }()
		return n, conn.QueryRow(ctx, countCaller, effectKey).Scan(&n)
	},
}

func backendNamed(name string) (backend, error) {
	for _, b := range []backend{onSQLite, onPostgres} {
		if b.name == name {
			return b, nil
		}
	}
	return backend{}, fmt.Errorf("no backend %q", name)
}

var errStillOpen = errors.New("the intent did not end in time")
