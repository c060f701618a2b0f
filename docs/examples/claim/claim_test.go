package claim_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/docs/examples/claim"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestOrderAndItsMailAreBothThereOrNeither(t *testing.T) {
	ctx, url := t.Context(), pgtest.Database(t)
	if _, err := postgres.Migrate(ctx, postgres.MigrateOptions{URL: url}); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.Open(ctx, postgres.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.PutChannel(ctx, ledger.ChannelRow{Name: "mail/shop", Kind: "mail", Sheet: channel.Sheet{Kind: "mail"}, Flag: ledger.FlagOn}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, "CREATE TABLE orders (id text PRIMARY KEY, state text); INSERT INTO orders VALUES ('7', 'open'), ('8', 'open')"); err != nil {
		t.Fatal(err)
	}
	state := func(order string) (s string) {
		t.Helper()
		if err := pool.QueryRow(ctx, "SELECT state FROM orders WHERE id = $1", order).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	seven := claim.Order{ID: "7", Run: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", Mail: "ann@example.org"}
	for range 2 { // the second call finds the claim of the first
		if err := claim.Pay(ctx, pool, l, seven); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := l.Intents(ctx, ledger.Filter{RunID: seven.Run})
	if err != nil || len(all) != 1 || all[0].State != ledger.StateIntent || state("7") != "paid" {
		t.Errorf("the order is %s, the intents are %+v, %v", state("7"), all, err)
	}
	// A claim that is refused takes the caller's own change with it.
	if err := l.SetFlag(ctx, "mail/shop", ledger.FlagOff); err != nil {
		t.Fatal(err)
	}
	eight := claim.Order{ID: "8", Run: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d11", Mail: "ben@example.org"}
	if err := claim.Pay(ctx, pool, l, eight); !errors.Is(err, ledger.ErrChannelOff) || state("8") != "open" {
		t.Errorf("the order is %s, %v", state("8"), err)
	}
}
