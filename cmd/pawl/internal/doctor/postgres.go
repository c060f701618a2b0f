package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// settings are what a Postgres does with a commit.
type settings struct {
	version, fsync, commit, pages, wal, standbys string
	recovery                                     bool
	pid                                          int64
}

// server looks at a Postgres. False: it does not answer.
func (d *doctor) server(ctx context.Context) bool {
	conn, err := pgx.Connect(ctx, d.Config.Ledger.URL.Reveal())
	if err != nil { // the driver leaves passwords out
		d.fault(aboutLedger, "see that the server runs, and that host, user and password in ledger.url are right", "%s does not answer: %s", d.Config.Ledger.URL, oneLine(err))
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only read
	var s settings
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('full_page_writes'), current_setting('wal_level'), current_setting('synchronous_standby_names'),
		pg_is_in_recovery(), pg_backend_pid()`, pgx.QueryExecModeExec).
		Scan(&s.version, &s.fsync, &s.commit, &s.pages, &s.wal, &s.standbys, &s.recovery, &s.pid)
	if err != nil {
		d.fault(aboutLedger, "mend that, then look again", "its settings cannot be read: %s", oneLine(err))
		return false
	}
	d.ok(aboutLedger, "%s answers, Postgres %s", d.Config.Ledger.URL, s.version)
	d.durability(s)
	if s.pid != int64(conn.PgConn().PID()) {
		d.ok("pooler", "a connection pooler stands between: that works; pawl migrate up needs a direct connection")
	}
	return true
}

// durability judges whether a commit survives a loss of power. An effect is sent because its stamp is durable.
func (d *doctor) durability(s settings) {
	const about = "durability"
	clean := len(d.found)
	if s.fsync != "on" {
		d.fault(about, "set fsync = on, and restart the server", "fsync is %s: a loss of power forgets what was committed, and effects are sent again", s.fsync)
	}
	if s.pages != "on" {
		d.fault(about, "set full_page_writes = on", "full_page_writes is %s: a loss of power can tear pages", s.pages)
	}
	switch s.commit {
	case "off":
		d.warn(about, "set synchronous_commit = on", "synchronous_commit is off by default; pawl sets it for its own transactions, but a claim in yours may be forgotten")
	case "local", "remote_write":
		if s.standbys != "" {
			d.warn(about, "set synchronous_commit = on", "synchronous_commit is %s: a standby that takes over may lack the last commits, and effects are sent again", s.commit)
		}
	}
	if s.recovery {
		d.fault(about, "point ledger.url at the primary", "this server is a standby: nothing can be written")
	}
	if len(d.found) == clean {
		d.ok(about, "fsync and full_page_writes are on, synchronous_commit is %s, wal_level is %s, %s", s.commit, s.wal, standbys(s.standbys))
	}
	if s.wal != "minimal" && s.standbys == "" {
		d.ok(about, "there is no synchronous standby: if another server ever takes over, open an epoch (pawl epoch open)")
	}
}

func standbys(names string) string {
	if names == "" {
		return "no synchronous standby"
	}
	return fmt.Sprintf("synchronous standbys: %s", names)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
