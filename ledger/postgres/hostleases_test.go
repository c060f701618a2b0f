package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// TestHostTablesOfManyTypesServe has the types that hosts use, in a schema of the host's.
func TestHostTablesOfManyTypesServe(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := p.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SCHEMA host`)
	exec(`CREATE TYPE host.phase AS ENUM ('on', 'off')`)
	exec(`CREATE DOMAIN host.run AS text CHECK (length(value) = 36)`)
	exec(`CREATE TABLE host.a (run host.run UNIQUE, worker uuid, token smallint, until timestamptz, phase host.phase)`)
	exec(`CREATE TABLE host.b (run uuid, worker varchar(80), token bigint, until timestamptz, part int) PARTITION BY LIST (run)`)
	exec(`CREATE TABLE host.b_all PARTITION OF host.b DEFAULT`)
	exec(`CREATE UNIQUE INDEX ON host.b (run)`)
	const worker = "5a0c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10"
	for name, table := range map[string]fence.Table{
		"text, uuid, enum":  {Name: "host.a", RunID: "run", Owner: "worker", Number: "token", ExpiresAt: "until", Status: "phase", Live: []string{"on"}},
		"uuid, partitioned": {Name: "host.b", RunID: "run", Owner: "worker", Number: "token", ExpiresAt: "until"},
	} {
		t.Run(name, func(t *testing.T) {
			hosted := openAt(t, url, func(o *postgres.Options) { o.Leases = &table })
			columns, values := "run, worker, token, until", "$1, '"+worker+"', 3, 'infinity'"
			if table.Status != "" {
				columns, values = columns+", phase", values+", 'on'"
			}
			c := newClaim("mail:a")
			lease := fence.Lease{RunID: c.RunID, Fence: fence.Fence{Number: 3, Owner: worker}}
			exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table.Name, columns, values), c.RunID)
			if err := hosted.VerifyLease(t.Context(), lease); err != nil {
				t.Errorf("a lease without an end: %v", err)
			}
			bare := c
			c.Lease = &lease
			if got := claim(t, hosted, c)[0].Intent.RunNumber; got != 3 {
				t.Errorf("claimed under number %d", got)
			}
			if got := claim(t, l, bare)[0].Status; got != ledger.ClaimDeduplicated { // a ledger that does not know of the table
				t.Errorf("claimed again: %s", got)
			}
			for _, end := range []string{"'-infinity'", "NULL"} {
				exec(fmt.Sprintf("UPDATE %s SET until = %s WHERE run = $1", table.Name, end), c.RunID)
				if err := hosted.VerifyLease(t.Context(), lease); !errors.Is(err, fence.ErrLost) {
					t.Errorf("a lease that ends at %s: %v", end, err)
				}
			}
		})
	}
}

// TestHostLeaseIsVerifiedInACallersOwnSession has a caller whose session reads texts and names in its own way.
func TestHostLeaseIsVerifiedInACallersOwnSession(t *testing.T) {
	_, url := open(t)
	p := pool(t, url)
	if _, err := p.Exec(t.Context(), `CREATE TABLE jobs (run uuid PRIMARY KEY, worker text, token int, until timestamptz, state text)`); err != nil {
		t.Fatal(err)
	}
	const live = `a\' OR true --`
	hosted := openAt(t, url, func(o *postgres.Options) {
		o.Leases = &fence.Table{Name: "jobs", RunID: "run", Owner: "worker", Number: "token", ExpiresAt: "until", Status: "state", Live: []string{live}}
	})
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, c := range []struct {
		state string
		want  error
	}{{live, nil}, {"other", fence.ErrLost}} {
		one := newClaim("mail:a")
		one.Lease = &fence.Lease{RunID: one.RunID, Fence: fence.Fence{Number: 1, Owner: "w"}}
		if _, err := p.Exec(t.Context(), "INSERT INTO jobs VALUES ($1, 'w', 1, now() + interval '1 hour', $2)", one.RunID, c.state); err != nil {
			t.Fatal(err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{"SET LOCAL standard_conforming_strings = off", "SET LOCAL escape_string_warning = off", "SET LOCAL search_path = pg_catalog", "SET LOCAL TimeZone = 'Asia/Tokyo'"} {
			if _, err := tx.ExecContext(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := hosted.Claim(t.Context(), postgres.SQLTx(tx), one); !errors.Is(err, c.want) {
			t.Errorf("with status %q: got %v, want %v", c.state, err, c.want)
		}
		_ = tx.Rollback()
	}
}

// TestHostTableThatMayNotBeLockedIsRefused opens as a user with too few rights.
func TestHostTableThatMayNotBeLockedIsRefused(t *testing.T) {
	_, at := open(t)
	p := pool(t, at)
	user := "reader_" + strings.ReplaceAll(newRun(), "-", "")[:12]
	for _, sql := range []string{
		`CREATE TABLE jobs (run uuid PRIMARY KEY, worker text, token int, until timestamptz)`, "CREATE ROLE " + user + " LOGIN PASSWORD 'x'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + user, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO " + user, "REVOKE ALL ON jobs FROM " + user, "GRANT SELECT ON jobs TO " + user,
	} {
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = p.Exec(ctx, "DROP OWNED BY "+user)
		_, _ = p.Exec(ctx, "DROP ROLE "+user)
	})
	address, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(user, "x")
	as := func() (*postgres.Ledger, error) {
		return postgres.Open(t.Context(), postgres.Options{
			URL: address.String(), Leases: &fence.Table{Name: "jobs", RunID: "run", Owner: "worker", Number: "token", ExpiresAt: "until"},
		})
	}
	_, err = as()
	var wrong *fence.TableError
	if !errors.As(err, &wrong) || wrong.Field != "name" || !strings.Contains(err.Error(), "UPDATE") {
		t.Errorf("got %v, want an error that names the right that is missing", err)
	}
	if _, err := p.Exec(t.Context(), "GRANT UPDATE (worker) ON jobs TO "+user); err != nil {
		t.Fatal(err)
	}
	l, err := as()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := newClaim("mail:a")
	c.Lease = &fence.Lease{RunID: c.RunID, Fence: fence.Fence{Number: 1, Owner: "w"}}
	err = l.InTx(t.Context(), func(tx ledger.Tx) error { _, err := l.Claim(t.Context(), tx, c); return err })
	if !errors.Is(err, fence.ErrLost) {
		t.Errorf("a claim by a user who may lock rows: %v", err)
	}
}
