package sqlite_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// tables that nobody may change behind the ledger's back.
var guarded = []string{
	"effect_intents", "effect_tokens", "outbox_dispatch_log", "late_evidence", "evidence_ids", "receipts", "lane_order", "lanes", "agent_runs",
	"ledger_epochs", "approvals_used",
}

// content is everything in the guarded tables, as text.
func content(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all strings.Builder
	for _, table := range guarded {
		rows, err := db.Query("SELECT * FROM " + table)
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(names))
			into := make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&all, table, values)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestReplaceNeverSlipsPastTheGuards tries every way that SQLite has to change a row without the triggers that watch it: on a connection
// without recursive_triggers, REPLACE deletes rows and fires no delete trigger.
func TestReplaceNeverSlipsPastTheGuards(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path, func(o *sqlite.Options) { o.Signer = new(ledgertest.Signer) })
	putChannel(t, l, "mail")
	run := uuid.NewString()
	laned := newClaim(run)
	laned.Lane = "ann"
	k := claimAll(t, l, laned)[0].Key
	stampAndCommit(t, l, fenceOne(t, l))
	if _, err := l.Move(t.Context(), k, ledger.Late{Key: k, Attempt: 1, Outcome: ledger.LateNotSent}); err != nil {
		t.Fatal(err)
	}
	waiting := claimAll(t, l, newClaim(run))[0].Intent
	db := openPlain(t, path)
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA recursive_triggers = OFF"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO agent_runs (id, idempotency_key) VALUES (?, 'once')", uuid.NewString()); err != nil {
		t.Fatal(err)
	}
	before := content(t, db)
	digest := strings.Repeat("a", 64)
	same := waiting.PayloadDigest
	other := uuid.NewString()
	insert := "INTO effect_intents (run_id, effect_key, channel, payload, payload_digest%s) VALUES ('%s', '%s', 'mail', '{}', '%s'%s)"
	// ignored: nothing is written, and it is no error; all others must fail.
	tries := []struct {
		name, sql string
		ignored   bool
	}{
		{"replace with another payload", "INSERT OR REPLACE " + fmt.Sprintf(insert, "", run, waiting.EffectKey, digest, ""), false},
		{"REPLACE with another payload", "REPLACE " + fmt.Sprintf(insert, "", run, waiting.EffectKey, digest, ""), false},
		{"replace with the same payload", "INSERT OR REPLACE " + fmt.Sprintf(insert, "", run, waiting.EffectKey, same, ""), true},
		{"do nothing on the same payload", "INSERT " + fmt.Sprintf(insert, "", run, waiting.EffectKey, same, "") + " ON CONFLICT DO NOTHING", true},
		{"do nothing on another payload", "INSERT " + fmt.Sprintf(insert, "", run, waiting.EffectKey, digest, "") + " ON CONFLICT DO NOTHING", false},
		{"or ignore on another payload", "INSERT OR IGNORE " + fmt.Sprintf(insert, "", run, waiting.EffectKey, digest, ""), false},
		{"do update", "INSERT " + fmt.Sprintf(insert, "", run, waiting.EffectKey, same, "") + " ON CONFLICT (run_id, effect_key) DO UPDATE SET payload = 'x'", true},
		{"replace a committed intent", "INSERT OR REPLACE " + fmt.Sprintf(insert, "", run, k.EffectKey, digest, ""), false},
		{"replace by seq", "INSERT OR REPLACE " + fmt.Sprintf(insert, ", seq", other, "mail:x", digest, ", 1"), false},
		{"replace by rowid", "INSERT OR REPLACE " + fmt.Sprintf(insert, ", rowid", other, "mail:x", digest, ", 1"), false},
		{"insert the seq that stands for none", "INSERT OR REPLACE " + fmt.Sprintf(insert, ", seq", other, "mail:x", digest, ", -1"), false},
		{"replace by place in the lane", "INSERT OR REPLACE " + fmt.Sprintf(insert, ", lane, lane_position", other, "mail:x", digest, ", 'ann', 1"), false},
		{"insert a committed intent", "INSERT OR REPLACE " + fmt.Sprintf(insert, ", state, external_ref", other, "mail:x", digest, ", 'committed', '{}'"), false},
		{"take another's key", "UPDATE OR REPLACE effect_intents SET effect_key = '" + waiting.EffectKey + "' WHERE effect_key = '" + k.EffectKey + "'", false},
		{"take another's seq", "UPDATE OR REPLACE effect_intents SET seq = 1 WHERE seq = 2", false},
		{"take another's seq, quietly", "UPDATE OR IGNORE effect_intents SET seq = 1 WHERE seq = 2", false},
		{"a NULL that becomes the default number", "UPDATE OR REPLACE effect_intents SET fence_epoch = NULL", false},
		{"a NULL that becomes the state intent", "UPDATE OR REPLACE effect_intents SET state = NULL WHERE state = 'committed'", false},
		{"a NULL that clears doubt", "UPDATE OR REPLACE effect_intents SET doubtful_attempts = NULL, may_have_taken_effect = NULL", false},
		{"a doubt that is no list", "UPDATE effect_intents SET doubtful_attempts = '', may_have_taken_effect = 1", false},
		{"a proof that is none", "UPDATE effect_intents SET proof = 'because' WHERE state = 'intent'", false},
		{"text that is greater than every number", "UPDATE effect_intents SET fence_epoch = 'z'", false},
		{"delete", "DELETE FROM effect_intents", false},
		{"delete one", "DELETE FROM effect_intents WHERE seq = 1", false},
		{"a second end", "UPDATE effect_intents SET state = 'abandoned', abandoned_as = 'unknown' WHERE seq = 1", false},
		{"a token replaced", "INSERT OR REPLACE INTO effect_tokens SELECT NULL, run_id, effect_key, version, channel, digest, hint, life_us, excludes_earlier, lane_number, made_at, dead_at, x'00' FROM effect_tokens", false},
		{"a token replaced by rowid", "INSERT OR REPLACE INTO effect_tokens SELECT seq, run_id, effect_key, 9, channel, 'x', hint, life_us, excludes_earlier, lane_number, made_at, dead_at, x'00' FROM effect_tokens", false},
		{"a token changed", "UPDATE OR REPLACE effect_tokens SET token = x'00'", false},
		{"tokens deleted", "DELETE FROM effect_tokens", false},
		{"the log rewritten", "INSERT OR REPLACE INTO outbox_dispatch_log SELECT id, run_id, effect_key, attempt, 'held', at, detail FROM outbox_dispatch_log", false},
		{"the log changed", "UPDATE OR REPLACE outbox_dispatch_log SET outcome = 'held'", false},
		{"the log deleted", "DELETE FROM outbox_dispatch_log", false},
		{"late evidence rewritten", "REPLACE INTO late_evidence SELECT id, run_id, effect_key, ledger_epoch, fence_epoch, fence_owner, attempt, 'sent', evidence, reason, at, used_at FROM late_evidence", false},
		{"late evidence changed", "UPDATE late_evidence SET outcome = 'sent'", false},
		{"late evidence deleted", "DELETE FROM late_evidence", false},
		{"a receipt rewritten", "REPLACE INTO receipts SELECT NULL, id, run_id, effect_key, 'held', issue, issued_at, digest, owed, reason, effect, envelope FROM receipts", false},
		{"a receipt rewritten by seq", "REPLACE INTO receipts SELECT seq, 'x', run_id, effect_key, 'held', 99, issued_at, digest, owed, reason, effect, envelope FROM receipts", false},
		{"a receipt rewritten by its order", "REPLACE INTO receipts SELECT NULL, 'x', run_id, effect_key, 'held', issue, issued_at, digest, owed, reason, effect, envelope FROM receipts", false},
		{"a receipt changed", "UPDATE receipts SET digest = 'x'", false},
		{"receipts deleted", "DELETE FROM receipts", false},
		{"a lane's order begun anew", "REPLACE INTO lane_order (lane, next) VALUES ('ann', 1)", false},
		{"a lane set back", "REPLACE INTO lanes (lane, turn, number) VALUES ('ann', 1, 0)", false},
		{"a lane set back by update", "UPDATE OR REPLACE lanes SET turn = NULL", false},
		{"lanes deleted", "DELETE FROM lanes", false},
		{"a run made anew", "REPLACE INTO agent_runs (id) SELECT id FROM agent_runs", false},
		{"a run made anew by its key", "REPLACE INTO agent_runs (id, idempotency_key) VALUES ('" + other + "', 'once')", false},
		{"runs deleted", "DELETE FROM agent_runs", false},
		{"an epoch rewritten", "REPLACE INTO ledger_epochs SELECT ledger_id, epoch, opened_at, '2099-01-01T00:00:00.000000Z' FROM ledger_epochs", false},
		{"an epoch of another ledger", "INSERT INTO ledger_epochs (ledger_id, epoch) VALUES ('x', 2)", false},
		{"an epoch left out", "INSERT INTO ledger_epochs (ledger_id, epoch) SELECT ledger_id, 7 FROM ledger_epochs", false},
	}
	for _, try := range tries {
		t.Run(try.name, func(t *testing.T) {
			_, err := db.Exec(try.sql)
			if err == nil != try.ignored {
				t.Errorf("got error %v", err)
			}
			if after := content(t, db); after != before {
				t.Errorf("the ledger has changed:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

func fenceOne(t *testing.T, l *sqlite.Ledger) ledger.Intent {
	t.Helper()
	r, err := l.Fence(t.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "engine", TTL: longEnough}, Channel: "mail", Limit: 1})
	if err != nil || len(r.Dispatches) != 1 {
		t.Fatalf("fenced %d: %v", len(r.Dispatches), err)
	}
	return r.Dispatches[0].Intent
}

// TestAClaimInPlainSQLIsEnough is what a program in any language does.
func TestAClaimInPlainSQLIsEnough(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	putChannel(t, l, "mail")
	run := uuid.NewString()
	_, err := openPlain(t, path).Exec(`INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest)
		VALUES (?, 'mail:a', 'mail', '{"n":1}', ?), (?, 'mail:b', 'mail', '{"n":2}', ?) ON CONFLICT DO NOTHING`,
		run, strings.Repeat("1", 64), run, strings.Repeat("2", 64))
	if err != nil {
		t.Fatal(err)
	}
	i := fenceOne(t, l)
	if i.EffectKey != "mail:a" || i.Kind != "mail" || string(i.Payload) != `{"n":1}` || i.CreatedAt.IsZero() {
		t.Errorf("fenced %+v", i)
	}
}

func TestALeasedRunTakesNoClaimInPlainSQLWithoutItsNumber(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	run, _ := leasedRun(t, l)
	db := openPlain(t, path)
	insert := `INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, run_epoch) VALUES (?, ?, 'mail', '{}', ?, ?)`
	if _, err := db.Exec(insert, run, "mail:a", strings.Repeat("1", 64), nil); err == nil {
		t.Error("a claim that names no lease was taken")
	}
	if _, err := db.Exec(insert, run, "mail:a", strings.Repeat("1", 64), 99); err == nil {
		t.Error("a claim that names another lease was taken")
	}
	if _, err := db.Exec(insert, run, "mail:a", strings.Repeat("1", 64), 1); err != nil {
		t.Errorf("a claim under the lease: %v", err)
	}
}

// TestAnApprovalServesOneClaimInPlainSQLToo goes past the ledger's own check.
func TestAnApprovalServesOneClaimInPlainSQLToo(t *testing.T) {
	db := openPlain(t, newPath(t))
	insert := func(approval string) error {
		_, err := db.Exec(`INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, approval) VALUES (?, 'mail:a', 'mail', '{}', ?, ?)`,
			uuid.NewString(), strings.Repeat("1", 64), approval)
		return err
	}
	for _, c := range []struct {
		approval string
		taken    bool
	}{
		{`{"reference":"one"}`, true},
		{`{"reference":"one"}`, false},
		{`{"reference":"two","count":2}`, true},
		{`{"reference":"two","count":2}`, true},
		{`{"reference":"two","count":2}`, false},
		{`{"reference":""}`, false},
		{`{}`, false},
		{`no JSON`, false},
	} {
		if err := insert(c.approval); (err == nil) != c.taken {
			t.Errorf("a claim with approval %s: %v", c.approval, err)
		}
	}
}
