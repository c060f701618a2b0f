package server

import (
	"context"
	"io"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/migrations"
)

// Migration is one step of a ledger's tables.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Migrate makes the ledger's tables, or brings them up to date. Any number of processes may do so at once. Errors are
// [*LedgerError].
func Migrate(ctx context.Context, c config.Config) error {
	path, embedded := c.Ledger.URL.SQLite()
	if !embedded {
		if _, err := postgres.Migrate(ctx, postgresMigrations(c)); err != nil {
			return unusable(c, err)
		}
		return nil
	}
	if err := makeData(c); err != nil {
		return err
	}
	if _, err := sqlite.Migrate(ctx, sqlite.Options{Path: path}); err != nil {
		return unusable(c, err)
	}
	return nil
}

func postgresMigrations(c config.Config) postgres.MigrateOptions {
	return postgres.MigrateOptions{URL: c.Ledger.URL.Reveal(), Schema: c.Ledger.Schema}
}

// Migrations returns every migration that this program knows, oldest first, and whether the ledger has it. It changes nothing.
func Migrations(ctx context.Context, c config.Config) ([]Migration, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	all := []Migration{}
	if path, ok := c.Ledger.URL.SQLite(); ok {
		if err := present(c, path); err != nil {
			return nil, err
		}
		states, err := sqlite.Status(ctx, sqlite.Options{Path: path})
		if err != nil {
			return nil, unusable(c, err)
		}
		for _, s := range states {
			all = append(all, Migration{s.Version, s.Name, s.Applied})
		}
		return all, nil
	}
	states, err := postgres.Status(ctx, postgresMigrations(c))
	if err != nil {
		return nil, unusable(c, err)
	}
	for _, s := range states {
		all = append(all, Migration{s.Version, s.Name, s.Applied})
	}
	return all, nil
}

// PrintMigrations writes the migrations after a version as plain SQL, to be applied by hand.
func PrintMigrations(w io.Writer, c config.Config, after int64) error {
	if c.Ledger.URL.Postgres() {
		return migrations.PrintPostgres(w, after)
	}
	return migrations.PrintSQLite(w, after)
}
