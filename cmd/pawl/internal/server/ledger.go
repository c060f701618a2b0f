package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// openTimeout bounds the opening of a ledger: one that does not answer is an error, not a wait.
const openTimeout = 15 * time.Second

// OpenLedger opens the ledger for a command that needs nothing else. It is not migrated by that, and not made. Errors are
// [*LedgerError]. Receipts of what the command decides are signed if the key is here, and owed to the engine otherwise.
func OpenLedger(ctx context.Context, c config.Config) (ledger.Ledger, error) {
	signs, err := commandSigner(c)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, signs, slog.New(slog.DiscardHandler))
}

// openForEngine opens the ledger, and makes and migrates an embedded one first: it belongs to the program that runs on it.
func openForEngine(ctx context.Context, c config.Config, signs ledger.Signer, logger *slog.Logger) (ledger.Ledger, error) {
	if _, ok := c.Ledger.URL.SQLite(); ok {
		if err := Migrate(ctx, c); err != nil {
			return nil, err
		}
	}
	return open(ctx, c, signs, logger)
}

func open(ctx context.Context, c config.Config, signs ledger.Signer, logger *slog.Logger) (ledger.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if path, ok := c.Ledger.URL.SQLite(); ok {
		if err := present(c, path); err != nil {
			return nil, err
		}
		l, err := sqlite.Open(ctx, sqlite.Options{
			Path: path, LedgerID: c.Ledger.ID, Signer: signs, Logger: logger, StatementTimeout: commitBound(c),
			Leases: leases(c),
		})
		if err != nil { // a nil *sqlite.Ledger must not become a ledger.Ledger
			return nil, unusable(c, err)
		}
		return l, nil
	}
	l, err := postgres.Open(ctx, postgres.Options{
		URL: c.Ledger.URL.Reveal(), Schema: c.Ledger.Schema, LedgerID: c.Ledger.ID, Signer: signs, Logger: logger,
		StatementTimeout: commitBound(c), Leases: leases(c),
	})
	if err != nil {
		return nil, unusable(c, err)
	}
	return l, nil
}

// leases is the mapping of somebody else's table of leases; nil: the ledger's own.
func leases(c config.Config) *fence.Table {
	if c.Ledger.Leases.Table == "" {
		return nil
	}
	table := c.Ledger.Leases.Fence()
	return &table
}

// present refuses a file that is not there: opening it would make an empty one.
func present(c config.Config, path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return unusable(c, errors.New("there is no such file; start pawl engine, or run: pawl migrate up"))
	}
	return nil
}

// commitBound is the statement time-out of the ledger: the policies count on a commit that ends within theirs.
func commitBound(c config.Config) time.Duration {
	bound := core.DefaultCommitBound
	for _, name := range c.Names() {
		if own := c.Channels[name].Policy.CommitBound; own > 0 {
			bound = min(bound, own)
		}
	}
	return bound
}

func unusable(c config.Config, err error) error {
	return &LedgerError{Ledger: c.Ledger.URL.String(), Err: err}
}

// makeData makes the data directory if the embedded ledger lives right in it. A ledger elsewhere has a folder already, or a
// mistake in its name.
func makeData(c config.Config) error {
	path, ok := c.Ledger.URL.SQLite()
	if !ok || filepath.Dir(path) != filepath.Clean(c.Data) {
		return nil
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	return nil
}
