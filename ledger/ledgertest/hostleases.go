package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func hostLeaseTopic() topic {
	return topic{"leases in the host's own table", []testCase{
		{name: "decide claims, fences and guards, and a reclaimed worker gets none", run: hostReclaim},
		{name: "are held by nobody once they expired, ended or lost their owner", run: hostEnded},
		{name: "refuse a claim that names none", run: hostUnleased},
		{name: "stay as they are until the claim's transaction ends, and are renewed then", run: hostRenewal},
		{name: "are renewed while claims follow one another", run: hostStarvation, needsWriters: true},
		{name: "are mapped wrong: the error names the column", run: hostWrongColumns},
		{name: "are read whatever the names hold", run: hostHostileNames},
		{name: "are created, taken, renewed and released by the host alone", run: hostOwns},
	}}
}

// host is a host with a lease table, and a ledger that reads it.
type host struct {
	*fixture
	table fence.Table
}

func hostTable() fence.Table {
	return fence.Table{
		Name: "jobs_" + uuid.NewString()[:8], RunID: "id", Owner: "worker", Number: "token", ExpiresAt: "leased_until", Status: "state", Live: []string{"leased", "running"},
	}
}

// types are the columns' types in the order of [fence.Table.Columns].
func (f *fixture) hostTypes() []string {
	if f.Dialect == SQLite {
		return []string{"TEXT PRIMARY KEY", "TEXT", "INTEGER", "TEXT", "TEXT"}
	}
	return []string{"uuid PRIMARY KEY", "text", "int", "timestamptz", "varchar(20)"}
}

func (f *fixture) createTable(t fence.Table, types []string) {
	f.t.Helper()
	var columns []string
	for n, c := range t.Columns() {
		columns = append(columns, fence.Quote(c.Name)+" "+types[n])
	}
	f.must(f.Exec(f.ctx(), fmt.Sprintf("CREATE TABLE %s (%s)", fence.Quote(t.Name), strings.Join(columns, ", "))))
}

func (f *fixture) newHost(t fence.Table) *host {
	f.t.Helper()
	f.createTable(t, f.hostTypes())
	g := *f
	var err error
	g.Ledger, err = f.OpenLeases(f.t, t)
	f.must(err)
	return &host{&g, t}
}

// stamp is a time as the host writes it.
func stampText(t time.Time) string { return quote(t.UTC().Format(time.RFC3339Nano)) }

// write puts the run's row as it says. A host takes its times from the database's clock.
func (h *host) write(run, owner string, number int64, left time.Duration, status string) error {
	q := fence.Quote
	return h.Exec(context.WithoutCancel(h.ctx()), fmt.Sprintf(`INSERT INTO %s (%s, %s, %s, %s, %s) VALUES (%s, %s, %d, %s, %s)
ON CONFLICT (%[2]s) DO UPDATE SET %[3]s = excluded.%[3]s, %[4]s = excluded.%[4]s, %[5]s = excluded.%[5]s, %[6]s = excluded.%[6]s`,
		q(h.table.Name), q(h.table.RunID), q(h.table.Owner), q(h.table.Number), q(h.table.ExpiresAt), q(h.table.Status),
		quote(run), owner, number, stampText(h.now().Add(left)), status))
}

// lease writes a live lease and returns it as the host would name it.
func (h *host) lease(run, owner string, number int64) fence.Lease {
	h.t.Helper()
	h.must(h.write(run, quote(owner), number, longEnough, quote(h.table.Live[0])))
	return fence.Lease{RunID: run, Fence: fence.Fence{Number: number, Owner: owner}}
}

func hostReclaim(f *fixture) {
	h := f.newHost(hostTable())
	run := newRunID()
	first := h.lease(run, "worker-1", 7)
	h.must(h.Ledger.VerifyLease(h.ctx(), first))
	k := h.claim(lease(first))
	if i := h.read(k); i.RunNumber != 7 {
		h.t.Errorf("claimed under number %d, want 7", i.RunNumber)
	}
	epoch, err := h.Ledger.Epoch(h.ctx())
	h.must(err)
	known := first
	known.Fence.Epoch = epoch
	h.claim(lease(known))
	for name, wrong := range map[string]func(*fence.Lease){
		"owner": func(l *fence.Lease) { l.Fence.Owner = "worker-2" }, "number": func(l *fence.Lease) { l.Fence.Number-- },
		"epoch": func(l *fence.Lease) { l.Fence.Epoch = epoch + 1 }, "run": func(l *fence.Lease) { l.RunID = newRunID() },
	} {
		bad := first
		wrong(&bad)
		if err := h.Ledger.VerifyLease(h.ctx(), bad); !errors.Is(err, fence.ErrLost) {
			h.t.Errorf("a lease with another %s verifies: %v", name, err)
		}
		if _, err := h.tryClaim(h.newClaim(lease(bad))); !errors.Is(err, fence.ErrLost) {
			h.t.Errorf("a claim under a lease with another %s: %v", name, err)
		}
	}
	guarded := func(l fence.Lease, key string) (bool, error) {
		_, first, err := h.Ledger.BeginGuard(h.ctx(), ledger.GuardRequest{RunID: run, Key: key, Lease: &l, Owner: engine, TTL: longEnough})
		return first, err
	}
	if first, err := guarded(first, "guard:a"); err != nil || !first {
		h.t.Errorf("a guard under the lease: %v, %v", first, err)
	}

	second := h.lease(run, "worker-2", 8)
	h.wants(h.Ledger.VerifyLease(h.ctx(), first), fence.ErrLost)
	h.must(h.Ledger.VerifyLease(h.ctx(), second))
	c := h.newClaim(lease(first))
	_, err = h.tryClaim(c, h.newClaim(func(c *ledger.Claim) { c.RunID = newRunID() }))
	h.wants(err, fence.ErrLost)
	if _, _, err := h.Ledger.Intent(h.ctx(), ledger.Key{RunID: run, EffectKey: c.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		h.t.Errorf("a reclaimed worker's claim is there: %v", err)
	}
	_, err = guarded(first, "guard:b")
	h.wants(err, fence.ErrLost)
	_, err = h.Ledger.Fence(h.ctx(), h.request(1, func(r *ledger.FenceRequest) { r.Only, r.Lease = &k, &first }))
	h.wants(err, fence.ErrLost)
	r, err := h.Ledger.Fence(h.ctx(), h.request(1, func(r *ledger.FenceRequest) { r.Only, r.Lease = &k, &second }))
	h.must(err)
	if len(r.Dispatches) != 1 {
		h.t.Errorf("under the new lease %d were fenced", len(r.Dispatches))
	}
	h.claim(lease(second))
	if first, err := guarded(second, "guard:b"); err != nil || !first {
		h.t.Errorf("a guard under the new lease: %v, %v", first, err)
	}
}

func hostEnded(f *fixture) {
	h := f.newHost(hostTable())
	for name, c := range map[string]struct {
		owner, status string
		left          time.Duration
	}{
		"expired": {quote("worker-1"), quote("running"), -time.Second}, "another status": {quote("worker-1"), quote("done"), longEnough},
		"no status": {quote("worker-1"), "NULL", longEnough}, "no owner": {"NULL", quote("running"), longEnough}, "an empty owner": {"''", quote("running"), longEnough},
	} {
		run := newRunID()
		l := h.lease(run, "worker-1", 3)
		h.must(h.Ledger.VerifyLease(h.ctx(), l))
		h.must(h.write(run, c.owner, 3, c.left, c.status))
		for _, owner := range []string{"worker-1", ""} {
			l.Fence.Owner = owner
			if err := h.Ledger.VerifyLease(h.ctx(), l); !errors.Is(err, fence.ErrLost) {
				h.t.Errorf("%s: it verifies for %q: %v", name, owner, err)
			}
			if _, err := h.tryClaim(h.newClaim(lease(l))); !errors.Is(err, fence.ErrLost) {
				h.t.Errorf("%s: a claim under it: %v", name, err)
			}
		}
		h.claim(func(c *ledger.Claim) { c.RunID = run }) // nobody holds it
	}
	// Time alone ends it, also within a transaction that was there before.
	l := h.lease(newRunID(), "worker-1", 1)
	tx, err := h.Begin(h.ctx())
	h.must(err)
	defer func() { _ = tx.Rollback() }()
	if f.Dialect == Postgres {
		h.must(h.write(l.RunID, quote("worker-1"), 1, 300*time.Millisecond, quote("running")))
		_, err = tx.QueryInt("SELECT 1")
		h.must(err)
	}
	if h.Advance != nil {
		h.Advance(2 * longEnough)
	} else {
		h.after(h.now().Add(300 * time.Millisecond))
	}
	_, err = h.Ledger.Claim(h.ctx(), tx.Tx, h.newClaim(lease(l)))
	h.wants(err, fence.ErrLost)
}

func hostUnleased(f *fixture) {
	h := f.newHost(hostTable())
	l := h.lease(newRunID(), "worker-1", 1)
	_, err := h.tryClaim(h.newClaim(), h.newClaim(func(c *ledger.Claim) { c.RunID = l.RunID }))
	h.namesField(err, "lease")
	if err != nil && !strings.Contains(err.Error(), l.RunID) {
		h.t.Errorf("the error does not say which run is leased: %v", err)
	}
	err = h.Ledger.InTx(h.ctx(), func(tx ledger.Tx) error {
		_, err := h.Ledger.RecordOnce(h.ctx(), tx, l.RunID, "charge:a", 0)
		return err
	})
	h.namesField(err, "lease")
	_, _, err = h.Ledger.BeginGuard(h.ctx(), ledger.GuardRequest{RunID: l.RunID, Key: "guard:a", Owner: engine, TTL: longEnough})
	h.namesField(err, "lease")
	h.claim()
	h.claim(lease(l))
}

func hostRenewal(f *fixture) {
	h := f.newHost(hostTable())
	l := h.lease(newRunID(), "worker-1", 1)
	tx, err := h.Begin(h.ctx())
	h.must(err)
	defer func() { _ = tx.Rollback() }()
	_, err = h.Ledger.Claim(h.ctx(), tx.Tx, h.newClaim(lease(l)))
	h.must(err)
	row := fmt.Sprintf("SELECT 1 FROM %s WHERE %s = %s", fence.Quote(h.table.Name), fence.Quote(h.table.RunID), quote(l.RunID))
	if f.Dialect == Postgres {
		if h.Exec(h.ctx(), row+" FOR UPDATE NOWAIT") == nil {
			h.t.Error("another worker could take the lease before the claim under it commits")
		}
	}
	renewed := make(chan error, 1)
	go func() { renewed <- h.write(l.RunID, quote("worker-1"), 1, 2*longEnough, quote("running")) }()
	h.must(tx.Commit())
	select {
	case err := <-renewed:
		h.must(err)
	case <-time.After(patience):
		h.t.Fatal("a renewal waits though the claim's transaction has ended")
	}
	h.must(h.Ledger.VerifyLease(h.ctx(), l))
	if f.Dialect == Postgres {
		h.must(h.Exec(h.ctx(), row+" FOR UPDATE NOWAIT"))
	}
}

func hostStarvation(f *fixture) {
	h := f.newHost(hostTable())
	l := h.lease(newRunID(), "worker-1", 1)
	done := make(chan struct{})
	var claims sync.WaitGroup
	for range 3 {
		claims.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := h.tryClaim(h.newClaim(lease(l))); err != nil {
					h.t.Errorf("a claim beside renewals: %v", err)
					return
				}
			}
		})
	}
	renewed := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < 5 && err == nil; n++ {
			err = h.write(l.RunID, quote("worker-1"), 1, longEnough, quote("running"))
		}
		renewed <- err
	}()
	select {
	case err := <-renewed:
		close(done)
		claims.Wait()
		h.must(err)
	case <-time.After(patience):
		close(done)
		claims.Wait()
		h.t.Fatal("five renewals were not made while claims followed one another")
	}
}

func hostWrongColumns(f *fixture) {
	good := hostTable()
	f.createTable(good, f.hostTypes())
	wants := func(name, field, says string, t fence.Table) {
		f.t.Helper()
		_, err := f.OpenLeases(f.t, t)
		var wrong *fence.TableError
		if !errors.As(err, &wrong) || wrong.Field != field || !strings.Contains(err.Error(), says) {
			f.t.Errorf("%s: got %v; want an error of leases.%s that says %s", name, err, field, says)
		}
	}
	for field, change := range map[string]func(*fence.Table){
		"run_id": func(t *fence.Table) { t.RunID = "nothing" }, "owner": func(t *fence.Table) { t.Owner = "nothing" }, "number": func(t *fence.Table) { t.Number = "nothing" },
		"expires_at": func(t *fence.Table) { t.ExpiresAt = "nothing" }, "status": func(t *fence.Table) { t.Status = "nothing" },
	} {
		t := good
		change(&t)
		wants("no such column", field, `"nothing"`, t)
	}
	t := good
	t.Name = "nowhere"
	wants("no such table", "name", "nowhere", t)
	t.Name, t.RunID = good.Name, ""
	wants("no column named", "run_id", "empty", t)
	types := map[string]string{"run_id": "int", "number": "text"}
	if f.Dialect == Postgres {
		types["expires_at"], types["owner"], types["status"] = "timestamp", "int", "boolean"
	}
	for field, kind := range types {
		t, have := hostTable(), f.hostTypes()
		for n, c := range t.Columns() {
			if c.Field == field {
				have[n] = strings.Replace(have[n], strings.Fields(have[n])[0], kind, 1)
			}
		}
		f.createTable(t, have)
		wants("a column of type "+kind, field, "the column", t)
	}
	loose := hostTable()
	have := f.hostTypes()
	have[0] = strings.TrimSuffix(have[0], " PRIMARY KEY")
	f.createTable(loose, have)
	wants("no unique index", "run_id", "unique", loose)
	f.must(f.Exec(f.ctx(), fmt.Sprintf("CREATE UNIQUE INDEX %s_both ON %[1]s (id, token)", loose.Name)))
	wants("a unique index on more", "run_id", "unique", loose)
	f.must(f.Exec(f.ctx(), fmt.Sprintf("CREATE VIEW view_%s AS SELECT * FROM %[1]s", good.Name)))
	t = good
	t.Name = "view_" + good.Name
	wants("a view", "name", "table", t)
}

func hostHostileNames(f *fixture) {
	t := fence.Table{
		Name: `odd "jobs"; DROP TABLE agent_runs; -- ` + uuid.NewString()[:8], RunID: `i"d`, Owner: `select`, Number: `%d $1 ?1 :x`, ExpiresAt: `Läuft's "ab"`, Status: `a\b`,
		Live: []string{`it's \ "on"`, `%s`, `'); --`},
	}
	types := f.hostTypes()
	types[4] = "text"
	f.createTable(t, types)
	g := *f
	var err error
	g.Ledger, err = f.OpenLeases(f.t, t)
	f.must(err)
	h := &host{&g, t}
	for n, live := range t.Live {
		l := h.lease(newRunID(), `wörker'"\1`, int64(n)+1)
		h.must(h.write(l.RunID, quote(l.Fence.Owner), l.Fence.Number, longEnough, quote(live)))
		h.must(h.Ledger.VerifyLease(h.ctx(), l))
		h.claim(lease(l))
		_, err := h.tryClaim(h.newClaim(func(c *ledger.Claim) { c.RunID = l.RunID }))
		h.namesField(err, "lease")
		h.must(h.write(l.RunID, quote(l.Fence.Owner), l.Fence.Number, longEnough, quote("off")))
		_, err = h.tryClaim(h.newClaim(lease(l)))
		h.wants(err, fence.ErrLost)
	}
	if _, err := f.QueryInt(f.ctx(), "SELECT count(*) FROM agent_runs"); err != nil {
		f.t.Errorf("a name was run as SQL: %v", err)
	}
}

func hostOwns(f *fixture) {
	h := f.newHost(hostTable())
	l := h.lease(newRunID(), "worker-1", 1)
	_, _, err := h.Ledger.CreateRun(h.ctx(), fence.NewRun{ID: newRunID()})
	h.wants(err, fence.ErrHostLeases)
	_, err = h.Ledger.Run(h.ctx(), l.RunID)
	h.wants(err, fence.ErrHostLeases)
	_, err = h.Ledger.Acquire(h.ctx(), l.RunID, fence.AcquireOptions{Owner: "worker-2", TTL: longEnough})
	h.wants(err, fence.ErrHostLeases)
	_, err = h.Ledger.Renew(h.ctx(), l, longEnough)
	h.wants(err, fence.ErrHostLeases)
	h.wants(h.Ledger.Release(h.ctx(), l, fence.StatusReady), fence.ErrHostLeases)
	h.wants(h.Ledger.CancelRun(h.ctx(), l.RunID, "ann", "x"), fence.ErrHostLeases)
	runs, err := h.Ledger.ReclaimDead(h.ctx(), fence.ReclaimOptions{ClockAllowance: 1})
	if h.must(err); len(runs) != 0 {
		h.t.Errorf("the ledger reclaimed %v", runs)
	}
	h.must(h.Ledger.VerifyLease(h.ctx(), l))
}
