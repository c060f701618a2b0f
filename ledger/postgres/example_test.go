package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// The examples compile against a real ledger; they need a server to run.

func ExampleOpen() {
	ctx := context.Background()
	const url = "postgres://app@localhost/shop"
	if _, err := postgres.Migrate(ctx, postgres.MigrateOptions{URL: url, Schema: "pawl"}); err != nil {
		log.Fatal(err)
	}
	l, err := postgres.Open(ctx, postgres.Options{URL: url, Schema: "pawl"})
	if errors.Is(err, ledger.ErrNewer) {
		log.Fatal("upgrade this program first")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	fmt.Println("ledger", l.ID())
}

// The order and the mail that confirms it are written together, or not at all.
func ExampleTx() {
	ctx := context.Background()
	var pool *pgxpool.Pool // your own
	var l *postgres.Ledger // opened with Options{Pool: pool}, or with a URL of the same database

	confirm := ledger.Claim{
		RunID: "0190b8a4-7f4e-7000-8000-000000000042", EffectKey: "mail:order-42:confirmed", Channel: "mail/orders",
		Payload: []byte(`{"to":"ann@example.com","template":"confirmed"}`),
	}
	for {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'paid' WHERE id = 42"); err != nil {
				return err
			}
			results, err := l.Claim(ctx, postgres.Tx(tx), confirm)
			if err == nil {
				fmt.Println(results[0].Status) // new, or deduplicated
			}
			return err
		})
		if errors.Is(err, ledger.ErrRetryTransaction) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
}

func ExampleSQLTx() {
	ctx := context.Background()
	var db *sql.DB // any Postgres driver
	var l *postgres.Ledger

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	first, err := l.RecordOnce(ctx, postgres.SQLTx(tx), "0190b8a4-7f4e-7000-8000-000000000042", "points:ann", 0)
	if err != nil {
		log.Fatal(err)
	}
	if first {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET points = points + 10 WHERE name = 'ann'"); err != nil {
			log.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}
