package core_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/ledger"
)

// A payload that plain SQL wrote has not been through Claim. Two readers can take two things from one that has a name twice, and its digest
// stands for one of them only.
func TestPayloadOfPlainSQLThatReadsInTwoWaysIsNeverSent(t *testing.T) {
	for _, payload := range []string{`{"headers":{"List-Id":"a"},"headers":{}}`, `{"wei":9007199254740993}`} {
		w := newWorld(exactSheet)
		b := newBench(t, w)
		e := b.engine()
		c := b.claim("by-sql")
		digest, err := canonical.Sum([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", "file:"+b.path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), "INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind) VALUES (?, ?, ?, ?, ?, 'test')",
			c.RunID, c.EffectKey, c.Channel, payload, digest.Hex())
		if closeErr := db.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		b.start(e)
		i := b.ended(e, ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey})
		if i.AbandonedAs != ledger.NeverSent || !strings.Contains(i.AbandonReason, "payload") || i.Attempts != 0 {
			t.Errorf("%s: %s: %s, %d attempts", payload, i.Outcome(), i.AbandonReason, i.Attempts)
		}
		b.wantEffects(c.EffectKey, 0)
	}
}
