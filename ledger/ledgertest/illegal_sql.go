package ledgertest

import (
	"fmt"
	"strings"

	"github.com/pawlworks/pawl/ledger"
)

// sqlMove is a row of the SQL table: what an UPDATE sets, and a cell for each situation:
// intent, in doubt, dispatched, stamped, dispatched in doubt, both, committed, abandoned, abandoned with late evidence.
type sqlMove struct {
	name, want, set string
}

// next raises the fence's number. Columns on the right are qualified: an upsert has two tables.
const next = "fence_epoch = effect_intents.fence_epoch + 1"

// free is what a row without a fence has; clean what one without doubt has.
const (
	free  = next + ", fence_owner = '', fence_expires_at = NULL, send_started_at = NULL"
	clean = "may_have_taken_effect = FALSE, doubtful_attempts = %s"
)

func sqlMoves(emptyList string) []sqlMove {
	clean := fmt.Sprintf(clean, quote(emptyList))
	ended := ", committed_at = effect_intents.created_at"
	return []sqlMove{
		{"note an error", "++++++...", "last_error = 'x'"},
		{"to intent, same number", "++.......", "state = 'intent'"},
		{"reopen without a proof", "???.?....", "state = 'intent', proof = '', " + free},
		{"reopen, no stamp", "??+.+....", "state = 'intent', proof = 'no_stamp', " + free},
		{"reopen, not sent", "??++++...", "state = 'intent', proof = 'not_sent', " + free},
		{"reopen, not sent, and all doubt gone", "?.++.....", "state = 'intent', proof = 'not_sent', " + free + ", " + clean},
		{"reopen, absent for good", "??++++...", "state = 'intent', proof = 'absent_for_good', " + free + ", " + clean},
		{"reopen, replay-safe, doubt not kept", "???.??...", "state = 'intent', proof = 'replay_safe', " + free},
		{"reopen, replay-safe, doubt forgotten", "?.?......", "state = 'intent', proof = 'replay_safe', " + free + ", " + clean},
		{"reopen, a person", "??++++...", "state = 'intent', proof = 'person', " + free + ", " + clean},
		{"reopen that keeps the number", "??.......", "state = 'intent', proof = 'absent_for_good', send_started_at = NULL, " + clean},
		{"reopen that keeps the stamp", "??+.+....", "state = 'intent', proof = 'not_sent', " + next},
		{"to dispatched, same number", "..++++...", "state = 'dispatched'"},
		{"fence", "++++++...", "state = 'dispatched', proof = '', starts = effect_intents.starts + 1, fence_owner = 'x', ledger_epoch = 1, " + next},
		{"commit without evidence", ".........", "state = 'committed', external_ref = NULL, established = 'send'" + ended},
		{"commit", "..++++...", `state = 'committed', external_ref = '{"id":"x"}', established = 'send'` + ended},
		{"abandon as nothing", ".........", "state = 'abandoned', abandoned_as = ''" + ended},
		{"abandon as something else", ".........", "state = 'abandoned', abandoned_as = 'whatever'" + ended},
		{"abandon, never sent", "+.+......", "state = 'abandoned', abandoned_as = 'never_sent'" + ended},
		{"abandon, refused", "+.+......", "state = 'abandoned', abandoned_as = 'refused'" + ended},
		{"abandon, never sent, hiding the stamp", "+.+......", "state = 'abandoned', abandoned_as = 'never_sent', proof = '', send_started_at = NULL" + ended},
		{"abandon, never sent, hiding the doubt", "?.?......", "state = 'abandoned', abandoned_as = 'never_sent', proof = '', send_started_at = NULL, " + clean + ended},
		{"abandon, refused, proven not sent", "?.++.....", "state = 'abandoned', abandoned_as = 'refused', proof = 'not_sent', send_started_at = NULL" + ended},
		{"abandon, unknown", "?.++++...", "state = 'abandoned', abandoned_as = 'unknown'" + ended},
		{"invent a state", ".........", "state = 'sent'"},
		{"fence number back", ".........", "fence_epoch = effect_intents.fence_epoch - 1"},
		{"starts back", ".........", "starts = effect_intents.starts - 1"},
		{"attempts back", ".........", "attempts = effect_intents.attempts - 1"},
		{"ledger epoch back", ".........", "ledger_epoch = effect_intents.ledger_epoch - 1"},
		{"forget the last possible send", "+.+......", "last_possible_send = NULL"},
		{"last possible send earlier", "?.?......", "last_possible_send = effect_intents.created_at"},
		{"forget the first send", "+.+......", "first_sent_at = NULL"},
		{"another payload", ".........", `payload = '{"to":"mallory"}'`},
		{"take the payload away", ".........", "payload = ''"},
		{"call it pruned", ".........", "pruned_at = '2001-01-01T00:00:00.000000Z'"},
		{"prune it on the day it ended, or before", ".........", "payload = '', pruned_at = '2001-01-01T00:00:00.000000Z'"},
		{"another digest", ".........", "payload_digest = '" + strings.Repeat("0", 64) + "'"},
		{"another key", ".........", "effect_key = 'mail:other'"},
		{"another run", ".........", "run_id = '00000000-0000-4000-8000-000000000000'"},
		{"another channel", ".........", "channel = 'mail/other'"},
		{"another kind", ".........", "kind = 'telegram'"},
		{"another approval", ".........", `approval = '{"by":"mallory"}'`},
		{"another lane", ".........", "lane = 'other', lane_position = 1"},
		{"another time of claim", ".........", "created_at = '2001-01-01T00:00:00.000000Z'"},
		{"another lease", ".........", "run_epoch = 99"},
		{"late evidence", "......++.", `late_ref = '{"id":"late"}'`},
		{"forget late evidence", "++++++++.", "late_ref = NULL"},
		{"forget doubt", "+.++..+++", clean},
		{"forget the stamp", "+++.+....", "send_started_at = NULL"},
		{"stamp without a fence", "..????...", "send_started_at = effect_intents.created_at"},
	}
}

// way is a way to write.
type way struct {
	name    string
	before  string // a statement that comes first
	text    func(k ledger.Key, i ledger.Intent, set, condition string) string
	ignores bool // a row that is there is never touched
}

func (f *fixture) ways() []way {
	update := func(verb string) func(ledger.Key, ledger.Intent, string, string) string {
		return func(k ledger.Key, _ ledger.Intent, set, condition string) string {
			return verb + " effect_intents SET " + set + where(k) + condition
		}
	}
	upsert := func(k ledger.Key, i ledger.Intent, set, condition string) string {
		return insertOf("INSERT INTO", k, i, "", "") + " ON CONFLICT (run_id, effect_key) DO UPDATE SET " + set + " WHERE TRUE" + condition
	}
	if f.Dialect == Postgres {
		replica := "SET LOCAL session_replication_role = replica"
		return []way{
			{name: "UPDATE", text: update("UPDATE")}, {name: "ON CONFLICT DO UPDATE", text: upsert},
			{name: "UPDATE as a replica", before: replica, text: update("UPDATE")},
		}
	}
	return []way{
		{name: "UPDATE", text: update("UPDATE")}, {name: "UPDATE OR REPLACE", text: update("UPDATE OR REPLACE")},
		{name: "ON CONFLICT DO UPDATE", text: upsert, ignores: true},
	}
}

// insertOf is an insert of the row's own claim, with more columns.
func insertOf(verb string, k ledger.Key, i ledger.Intent, columns, values string) string {
	return fmt.Sprintf("%s effect_intents (run_id, effect_key, channel, payload, payload_digest, kind%s) VALUES (%s, %s, %s, %s, %s, %s%s)",
		verb, columns, quote(k.RunID), quote(k.EffectKey), quote(i.Channel), quote(string(i.Payload)), quote(i.PayloadDigest), quote(i.Kind), values)
}

// same is true of the row as long as it is as it was.
func same(k ledger.Key, i ledger.Intent) string {
	return fmt.Sprintf("SELECT count(*) FROM effect_intents%s AND state = %s AND fence_epoch = %d AND starts = %d AND attempts = %d AND payload_digest = %s AND abandoned_as = %s",
		where(k), quote(string(i.State)), i.FenceNumber, i.Starts, i.Attempts, quote(i.PayloadDigest), quote(string(i.AbandonedAs)))
}

// attempt runs the statement in a transaction that is rolled back, and reports whether it was allowed: no error. A way that ignores rows
// that are there is refused if the row is as it was.
func (f *fixture) attempt(before, sql string) error {
	f.t.Helper()
	tx, err := f.Begin(f.ctx())
	f.must(err)
	defer func() { _ = tx.Rollback() }()
	if before != "" {
		f.must(tx.Exec(before))
	}
	return tx.Exec(sql)
}

func tableSQL(f *fixture) {
	columns := situations(f.addChannel(exactSheet()), f.addChannel(replaySheet()))
	rows := make([]ledger.Intent, len(columns))
	for n, c := range columns {
		rows[n] = f.read(c.make(f))
	}
	list := "{}"
	if f.Dialect == SQLite {
		list = "[]"
	}
	for _, w := range f.ways() {
		t := &table{f: f}
		t.head(w.name, columns)
		for _, m := range sqlMoves(list) {
			t.row(m.name)
			// The statement itself is in order: with a condition that no row meets nothing is wrong with it.
			if err := f.attempt(w.before, w.text(rows[0].Key, rows[0], m.set, " AND 1 = 0")); err != nil {
				f.t.Errorf("%s, %s: the statement is wrong: %v", w.name, m.name, err)
			}
			for n, c := range columns {
				err := f.attempt(w.before, w.text(rows[n].Key, rows[n], m.set, ""))
				want := m.want[n]
				if w.ignores {
					if err == nil { // it says nothing and does nothing
						f.unchanged(rows[n], w.text(rows[n].Key, rows[n], m.set, ""))
						err = fmt.Errorf("ignored")
					}
					if want == '+' {
						want = '.'
					}
				}
				t.cell(w.name+", "+m.name, c.name, want, err == nil, fmt.Sprint(err))
			}
			t.out.WriteByte('\n')
		}
		t.end(sqlCells)
	}
	for n, c := range columns {
		if f.queryInt(same(rows[n].Key, rows[n])) != 1 {
			f.t.Errorf("after all that the row that is %s has changed", c.name)
		}
	}
}

// unchanged runs a statement and fails unless the row is as it was.
func (f *fixture) unchanged(i ledger.Intent, sql string) {
	f.t.Helper()
	tx, err := f.Begin(f.ctx())
	f.must(err)
	defer func() { _ = tx.Rollback() }()
	if tx.Exec(sql) != nil {
		return
	}
	if n, err := tx.QueryInt(same(i.Key, i)); err != nil || n != 1 {
		f.t.Errorf("this changed a row that is %s (%v): %.120s…", i.State, err, sql)
	}
}

func tableKept(f *fixture) {
	columns := situations(f.addChannel(exactSheet()), f.addChannel(replaySheet()))
	for _, c := range columns {
		i := f.read(c.make(f))
		statements := map[string]string{"DELETE": "DELETE FROM effect_intents" + where(i.Key)}
		before := []string{""}
		if f.Dialect == Postgres {
			before = append(before, "SET LOCAL session_replication_role = replica")
			statements["TRUNCATE"] = "TRUNCATE effect_intents CASCADE"
		}
		for name, sql := range statements {
			for _, b := range before {
				if f.attempt(b, sql) == nil {
					f.t.Errorf("%s of a row that is %s was allowed (%s)", name, c.name, b)
				}
			}
		}
		if f.Dialect != SQLite {
			continue
		}
		for _, verb := range []string{"INSERT OR REPLACE INTO", "REPLACE INTO", "INSERT OR IGNORE INTO", "INSERT OR FAIL INTO"} {
			f.unchanged(i, insertOf(verb, i.Key, i, "", ""))
			f.unchanged(i, insertOf(verb, i.Key, i, ", state", ", 'committed'"))
			other := i
			other.PayloadDigest = strings.Repeat("1", 64)
			f.unchanged(i, insertOf(verb, i.Key, other, "", ""))
			fresh := f.newClaim()
			same := ledger.Key{RunID: fresh.RunID, EffectKey: fresh.EffectKey}
			for _, hidden := range []string{"rowid", "seq"} { // a new key on the old row's place
				f.unchanged(i, insertOf(verb, same, i, ", "+hidden, fmt.Sprintf(", (SELECT %s FROM effect_intents%s)", hidden, where(i.Key))))
			}
		}
	}
}

func tableInserts(f *fixture) {
	t := &table{f: f}
	t.head("INSERT", nil)
	evidence := `'{"id":"x"}'`
	now := "'2026-01-01T00:00:00.000000Z'"
	for _, c := range []struct {
		name, columns, values string
		want                  byte
	}{
		{"bare", "", "", '+'}, {"with a lane", ", lane", ", 'insert-" + f.run + "'", '+'}, {"as intent", ", state", ", 'intent'", '+'},
		{"dispatched", ", state", ", 'dispatched'", '.'}, {"committed", ", state, external_ref", ", 'committed', " + evidence, '.'},
		{"abandoned", ", state, abandoned_as", ", 'abandoned', 'unknown'", '.'}, {"with a number", ", fence_epoch", ", 1", '.'},
		{"with an owner", ", fence_owner", ", 'x'", '.'}, {"with starts", ", starts", ", 1", '.'}, {"with attempts", ", attempts", ", 1", '.'},
		{"with a stamp", ", send_started_at", ", " + now, '.'}, {"with a first send", ", first_sent_at", ", " + now, '.'},
		{"with evidence", ", external_ref", ", " + evidence, '.'}, {"with late evidence", ", late_ref", ", " + evidence, '.'},
		{"pruned", ", pruned_at", ", " + now, '.'},
		{"with a place in a lane", ", lane, lane_position", ", 'insert-" + f.run + "', 1", '.'},
	} {
		claim := f.newClaim()
		p, err := ledger.Prepare(claim)
		f.must(err)
		i := p.Intent(f.now())
		err = f.attempt("", insertOf("INSERT INTO", i.Key, i, c.columns, c.values))
		t.row(c.name)
		t.cell("INSERT "+c.name, "missing", c.want, err == nil, fmt.Sprint(err))
		t.out.WriteByte('\n')
	}
	t.end(insertCells)
}

func tableAppendOnly(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, sentAs(i, "kept-"+f.run))
	f.move(k, ledger.Late{Key: k, Fence: i.Fence(), Attempt: 1, Outcome: ledger.LateNotSent})
	for name, set := range map[string]string{
		"effect_tokens": "token = NULL", "outbox_dispatch_log": "outcome = 'sent'", "late_evidence": "attempt = 9", "receipts": "outcome = 'held'",
		"evidence_ids": "evidence_id = 'mine'", "redrives": "reason = 'mine'",
	} {
		k := k
		if name == "redrives" {
			k = f.abandoned()
			f.redrive(again(k))
		}
		if f.queryInt("SELECT count(*) FROM "+name+where(k)) == 0 {
			f.t.Errorf("%s has no row to try it on", name)
		}
		statements := []string{"UPDATE " + name + " SET " + set + where(k), "DELETE FROM " + name + where(k)}
		before := []string{""}
		if f.Dialect == Postgres {
			before = append(before, "SET LOCAL session_replication_role = replica")
			statements = append(statements, "TRUNCATE "+name)
		}
		for _, sql := range statements {
			for _, b := range before {
				if f.attempt(b, sql) == nil {
					f.t.Errorf("%s was allowed (%s)", sql, b)
				}
			}
		}
	}
}
