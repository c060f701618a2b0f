package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

func TestLedgerSuite(t *testing.T) { ledgertest.Run(t, openBackend) }

// openBackend makes an empty ledger with a clock that tests can move.
func openBackend(t *testing.T) ledgertest.Backend {
	clock := sqlite.NewFakeClock()
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func(t *testing.T, signer ledger.Signer) ledger.Ledger {
		t.Helper()
		l, err := sqlite.Open(t.Context(), sqlite.WithClock(sqlite.Options{Path: path, Signer: signer}, clock))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	if _, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	db := openPlain(t, path)
	return ledgertest.Backend{
		Ledger: open(t, new(ledgertest.Signer)), Dialect: ledgertest.SQLite, OneWriter: true, Advance: clock.Advance, Reopen: open,
		OpenLeases: func(t *testing.T, leases fence.Table) (ledger.Ledger, error) {
			l, err := sqlite.Open(t.Context(), sqlite.WithClock(sqlite.Options{Path: path, Leases: &leases}, clock))
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
			return l, nil
		},
		Exec: func(ctx context.Context, query string, args ...any) error {
			_, err := db.ExecContext(ctx, query, args...)
			return err
		},
		QueryInt: func(ctx context.Context, query string) (n int64, err error) {
			err = db.QueryRowContext(ctx, query).Scan(&n)
			return n, err
		},
		Begin: func(ctx context.Context) (*ledgertest.Transaction, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			return &ledgertest.Transaction{
				Tx: sqlite.Tx(tx), Commit: tx.Commit,
				Rollback: func() error {
					if err := tx.Rollback(); err != sql.ErrTxDone {
						return err
					}
					return nil
				},
				Exec: func(query string, args ...any) error {
					_, err := tx.ExecContext(ctx, query, args...)
					return err
				},
				QueryInt: func(query string) (n int64, err error) {
					err = tx.QueryRowContext(ctx, query).Scan(&n)
					return n, err
				},
			}, nil
		},
	}
}

// openPlain opens the file as a user's own program would.
func openPlain(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

var _ = time.Second
