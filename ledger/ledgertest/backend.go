package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Dialect is the SQL that a backend speaks, for the few statements that differ.
type Dialect string

const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Backend is one empty, migrated ledger, with the means to get at its database behind its back.
type Backend struct {
	// Ledger has a [Signer] of this package, or any other that works. The opener closes it with t.Cleanup.
	Ledger  ledger.Ledger
	Dialect Dialect
	// Exec runs one statement on a plain connection to the same database (and schema), in a transaction of its own. The suite
	// passes no arguments: its values are literals, so that one text serves every placeholder style.
	Exec func(ctx context.Context, sql string, args ...any) error
	// QueryInt runs a query that returns one row with one integer.
	QueryInt func(ctx context.Context, sql string) (int64, error)
	// Begin begins a caller's own transaction on a plain connection, as a user of the library would. On SQLite it begins
	// immediately.
	Begin func(ctx context.Context) (*Transaction, error)
	// Advance moves the database's clock, if the backend has a seam for it; nil otherwise.
	Advance func(d time.Duration)
	// Reopen opens the same database once more, as another process would, with this signer (nil: none). The opener closes it
	// with t.Cleanup.
	Reopen func(t *testing.T, signer ledger.Signer) ledger.Ledger
	// OpenLeases opens the same database once more, with the host's own lease table. The opener closes it with t.Cleanup.
	OpenLeases func(t *testing.T, leases fence.Table) (ledger.Ledger, error)
	// OneWriter says that the database lets one transaction write at a time: tests that write while another transaction is
	// open are not run.
	OneWriter bool
}

// Transaction is a caller's own transaction.
type Transaction struct {
	Tx       ledger.Tx
	Commit   func() error
	Rollback func() error // harmless after Commit
	Exec     func(sql string, args ...any) error
	QueryInt func(sql string) (int64, error)
}
