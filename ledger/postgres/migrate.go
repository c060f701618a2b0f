package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/pawlworks/pawl/migrations"
)

// MigrateOptions say where to migrate.
type MigrateOptions struct {
	// URL connects directly: through a transaction pooler, [Migrate] is [ErrPooled] unless there is nothing to do.
	URL    string
	Schema string // created if it is missing; default [DefaultSchema]
}

// Migration is one step, applied or not.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time
}

// Migrate brings the schema up to date and returns what it applied. Any number of processes may start it at once: they take turns.
func Migrate(ctx context.Context, o MigrateOptions) ([]Migration, error) {
	var applied []Migration
	config, direct, err := o.normal(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if !direct {
		if err := migratedThroughPooler(ctx, config, o.Schema); err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
		return nil, nil
	}
	err = migrator(ctx, config, o.Schema, true, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			if r.Error == nil {
				applied = append(applied, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: true})
			}
		}
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// Status returns every migration that this program knows, oldest first.
func Status(ctx context.Context, o MigrateOptions) ([]Migration, error) {
	config, direct, err := o.normal(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	var all []Migration
	if !direct {
		if all, err = migrated(ctx, config, o.Schema); err != nil {
			return nil, fmt.Errorf("migration status: %w", err)
		}
		return all, nil
	}
	err = migrator(ctx, config, o.Schema, false, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, s := range states {
			all = append(all, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied, AppliedAt: s.AppliedAt})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	return all, nil
}

// normal fills in defaults, reads the URL, and finds out whether it leads to the server itself.
func (o *MigrateOptions) normal(ctx context.Context) (config *pgx.ConnConfig, direct bool, err error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if config, err = pgx.ParseConfig(o.URL); err != nil {
		return nil, false, fmt.Errorf("read url: %w", redacted(err))
	}
	direct, err = isDirect(ctx, config)
	return config, direct, err
}

func migrator(ctx context.Context, config *pgx.ConnConfig, schema string, create bool, f func(p *goose.Provider) error) error {
	config.RuntimeParams["search_path"] = quoteName(schema)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if create {
		if err := createSchema(ctx, db, schema); err != nil {
			return err
		}
	}
	files, err := migrations.Postgres()
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300), lock.WithUnlockTimeout(1, 30))
	if err != nil {
		return fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(migrations.PostgresTable),
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return f(p)
}

// createSchema creates the schema unless it is there: CREATE … IF NOT EXISTS needs rights that a user of an existing schema may lack, and
// two of them at once can fail on the catalog's unique index.
func createSchema(ctx context.Context, db *sql.DB, schema string) error {
	for {
		var there bool
		if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil {
			return fmt.Errorf("look for schema: %w", err)
		}
		if there {
			return nil
		}
		_, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+quoteName(schema))
		if err != nil && sqlState(err) != stateUnique {
			return fmt.Errorf("create schema %s: %w", schema, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func latestMigration() (int64, error) {
	files, err := migrations.Postgres()
	if err != nil {
		return 0, err
	}
	latest, err := migrations.Latest(files)
	if err == nil && latest == 0 {
		err = errors.New("no migrations are embedded")
	}
	return latest, err
}
