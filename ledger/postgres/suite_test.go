package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// TestLedger is the suite that every backend passes.
func TestLedger(t *testing.T) { ledgertest.Run(t, backend) }

func backend(t *testing.T) ledgertest.Backend {
	url := pgtest.Database(t)
	return backendAt(t, url, url, "")
}

// backendAt migrates a database and runs on another URL of it. mode is added to the URL of the caller's own pool.
func backendAt(t *testing.T, direct, url, mode string) ledgertest.Backend {
	t.Helper()
	if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: direct}); err != nil {
		t.Fatal(err)
	}
	reopen := func(t *testing.T, s ledger.Signer) ledger.Ledger {
		l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Signer: s})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	p := pool(t, url+mode)
	return ledgertest.Backend{
		Ledger: reopen(t, signer(t)), Dialect: ledgertest.Postgres, Reopen: reopen,
		OpenLeases: func(t *testing.T, leases fence.Table) (ledger.Ledger, error) {
			l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Leases: &leases})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = l.Close() })
			return l, nil
		},
		Exec: func(ctx context.Context, sql string, args ...any) error {
			_, err := p.Exec(ctx, sql, args...)
			return err
		},
		QueryInt: func(ctx context.Context, sql string) (n int64, err error) {
			err = p.QueryRow(ctx, sql).Scan(&n)
			return n, err
		},
		Begin: func(ctx context.Context) (*ledgertest.Transaction, error) { return begin(ctx, p) },
	}
}

func begin(ctx context.Context, p *pgxpool.Pool) (*ledgertest.Transaction, error) {
	tx, err := p.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &ledgertest.Transaction{
		Tx:       postgres.Tx(tx),
		Commit:   func() error { return tx.Commit(ctx) },
		Rollback: func() error { return tx.Rollback(ctx) },
		Exec: func(sql string, args ...any) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		},
		QueryInt: func(sql string) (n int64, err error) {
			err = tx.QueryRow(ctx, sql).Scan(&n)
			return n, err
		},
	}, nil
}
