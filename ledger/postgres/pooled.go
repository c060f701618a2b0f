package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/migrations"
)

// ErrPooled says that a transaction pooler stands between, where the ledger's tables would have to be changed.
var ErrPooled = errors.New("a connection pooler stands between: migrate over a direct connection to the server, since the lock that keeps two migrators apart belongs to the session; engines may go on using the pooler")

// migrated returns what has been applied, over a connection through a pooler, and changes nothing. It asks in the form that any
// pooler takes: no setting for the session, no named statement.
func migrated(ctx context.Context, config *pgx.ConnConfig, schema string) ([]Migration, error) {
	files, err := migrations.Postgres()
	if err != nil {
		return nil, err
	}
	known, err := migrations.List(files)
	if err != nil {
		return nil, err
	}
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	applied := map[int64]time.Time{}
	rows, err := conn.Query(ctx, `SELECT version_id, tstamp FROM `+quoteName(schema)+`.`+migrations.PostgresTable+` WHERE is_applied`)
	if err == nil {
		var version int64
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&version, &at}, func() error { applied[version] = at; return nil })
	}
	if err != nil && sqlState(err) != stateNoTable {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	all := make([]Migration, len(known))
	for i, m := range known {
		at, ok := applied[m.Version]
		all[i] = Migration{Version: m.Version, Name: m.Name, Applied: ok, AppliedAt: at}
	}
	return all, nil
}

// migratedThroughPooler is Migrate through a pooler: right if there is nothing to do.
func migratedThroughPooler(ctx context.Context, config *pgx.ConnConfig, schema string) error {
	all, err := migrated(ctx, config, schema)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !m.Applied {
			return fmt.Errorf("%s is to be applied: %w", m.Name, ErrPooled)
		}
	}
	return nil
}
