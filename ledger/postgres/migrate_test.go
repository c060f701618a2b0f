package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/migrations"
)

// migrateVariable makes the test binary a process that migrates and opens, and nothing else.
const migrateVariable = "PAWL_TEST_MIGRATE"

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	if url := os.Getenv(migrateVariable); url != "" {
		if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url, Schema: "at_once"}); err != nil {
			t.Fatal(err)
		}
		l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: "at_once"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ledger " + l.ID())
		_ = l.Close()
		return
	}
	url := pgtest.Database(t)
	var mu sync.Mutex
	ids := map[string]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			c := exec.Command(os.Args[0], "-test.run=^TestManyProcessesMigrateAtOnce$", "-test.v")
			c.Env = append(os.Environ(), migrateVariable+"="+url)
			out, err := c.CombinedOutput()
			_, id, found := strings.Cut(string(out), "ledger ")
			if err != nil || !found {
				t.Errorf("%v: %s", err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[strings.Fields(id)[0]] = true
		})
	}
	group.Wait()
	if len(ids) != 1 {
		t.Errorf("8 processes saw ledgers %v, want one", ids)
	}
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	url := pgtest.Database(t)
	try := func(id string) error {
		l, err := postgres.Open(t.Context(), postgres.Options{URL: url, LedgerID: id})
		if err == nil {
			_ = l.Close()
		}
		return err
	}
	if err := try(""); !errors.Is(err, ledger.ErrNotMigrated) {
		t.Errorf("before migrating: %v", err)
	}
	status, err := postgres.Status(t.Context(), postgres.MigrateOptions{URL: url})
	if err != nil || len(status) == 0 || status[0].Applied {
		t.Errorf("status before migrating: %+v, %v", status, err)
	}
	applied, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url})
	if err != nil || len(applied) != len(status) {
		t.Fatalf("applied %+v of %d, %v", applied, len(status), err)
	}
	if err := try(""); err != nil {
		t.Errorf("after migrating: %v", err)
	}
	if err := try(uuid.NewString()); !errors.Is(err, ledger.ErrOtherLedger) {
		t.Errorf("another id: %v", err)
	}
	p := pool(t, url)
	table := migrations.PostgresTable
	if _, err := p.Exec(t.Context(), "INSERT INTO "+table+" (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if err := try(""); !errors.Is(err, ledger.ErrNewer) {
		t.Errorf("a newer ledger: %v", err)
	}
	if _, err := p.Exec(t.Context(), "DELETE FROM "+table+" WHERE version_id > 1"); err != nil {
		t.Fatal(err)
	}
	if err := try(""); !errors.Is(err, ledger.ErrNotMigrated) {
		t.Errorf("an older ledger: %v", err)
	}
}

func TestPasswordsStayOutOfErrors(t *testing.T) {
	for _, url := range []string{"postgres://ann:s3cret@localhost:badport/x", "host=localhost password=s3cret port=nonsense", "postgres://ann:s3cret@127.0.0.1:1/x"} {
		_, err := postgres.Open(t.Context(), postgres.Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("open: %v", err)
		}
	}
}

// describe lists columns, indexes, constraints, triggers and functions of a schema.
const describe = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = $1
UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::regnamespace
UNION ALL SELECT format('%s %s', pg_get_triggerdef(t.oid), t.tgenabled) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = $1::regnamespace
UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace) AS all_of(line)`

func TestPrintedMigrationsAreTheMigrators(t *testing.T) {
	url := pgtest.Database(t)
	if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url, Schema: "by_tool"}); err != nil {
		t.Fatal(err)
	}
	var script bytes.Buffer
	if err := migrations.PrintPostgres(&script, 0); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.PgConn().Exec(t.Context(), "CREATE SCHEMA by_hand; SET search_path = by_hand;\n"+script.String()).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil { // so that names are printed in full
		t.Fatal(err)
	}
	shape := map[string]string{}
	for _, schema := range []string{"by_tool", "by_hand"} {
		var all string
		if err := conn.QueryRow(t.Context(), describe, schema).Scan(&all); err != nil {
			t.Fatal(err)
		}
		shape[schema] = strings.ReplaceAll(all, schema, "schema")
		l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	tool, hand := strings.Split(shape["by_tool"], "\n"), strings.Split(shape["by_hand"], "\n")
	for n := range min(len(tool), len(hand)) {
		if tool[n] != hand[n] {
			t.Fatalf("by tool: %s\nby hand: %s", tool[n], hand[n])
		}
	}
	if len(tool) != len(hand) || len(tool) < 100 {
		t.Errorf("%d lines by tool, %d by hand", len(tool), len(hand))
	}
}

func TestTwoLedgersInOneDatabaseDoNotMeet(t *testing.T) {
	url := pgtest.Database(t)
	var all []*postgres.Ledger
	for _, schema := range []string{`odd "name"`, "other"} {
		if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url, Schema: schema}); err != nil {
			t.Fatal(err)
		}
		l, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema, Signer: signer(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := l.PutChannel(t.Context(), ledger.ChannelRow{Name: mail, Kind: "mail", Sheet: sheet()}); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	c := newClaim("mail:a")
	c.Lane = "l"
	claim(t, all[0], c)
	if n := len(take(t, all[1], 10).Dispatches); n != 0 {
		t.Errorf("the other ledger fenced %d", n)
	}
	send(t, all[0], take(t, all[0], 10).Dispatches[0])
	if all[0].ID() == all[1].ID() {
		t.Error("two ledgers have one id")
	}
}

// TestNothingDependsOnTheSession drops all session state after every transaction, as a transaction pooler may.
func TestNothingDependsOnTheSession(t *testing.T) {
	_, url := open(t)
	config, err := pgxpool.ParseConfig(url + "&default_query_exec_mode=cache_describe")
	if err != nil {
		t.Fatal(err)
	}
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), "DISCARD ALL", pgx.QueryExecModeSimpleProtocol)
		return err == nil
	}
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l, err := postgres.Open(t.Context(), postgres.Options{Pool: p, Signer: signer(t)})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		c := newClaim(fmt.Sprintf("mail:%d", n))
		c.Lane = "l"
		claim(t, l, c)
		send(t, l, take(t, l, 1).Dispatches[0])
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool was closed with the ledger: %v", err)
	}
}
