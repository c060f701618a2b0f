package postgres_test

import (
	"strings"
	"testing"

	"github.com/pawlworks/pawl/ledger"
)

// One row with such a time would break every list that it is in: JSON has no form for it.
func TestAClaimByPlainSQLAtATimeThatNothingCanShowIsRefused(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	insert := func(column, value string) error {
		_, err := p.Exec(t.Context(), `INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, `+column+`)
VALUES ($1, $2, $3, '{}', repeat('0', 64), $4::timestamptz)`, newRun(), "mail:"+value, mail, value)
		return err
	}
	for _, column := range []string{"due_at", "expires_at"} {
		for _, value := range []string{"infinity", "-infinity", "10000-01-01 00:00:00+00", "9999-12-31 23:59:59-10:00", "1969-12-31 23:59:59+00"} {
			if err := insert(column, value); err == nil || !strings.Contains(err.Error(), "effect_intents_times") {
				t.Errorf("%s %s: %v", column, value, err)
			}
		}
		if err := insert(column, "9999-12-31 23:59:59.999999+00"); err != nil {
			t.Errorf("%s at the last moment that can be shown: %v", column, err)
		}
	}
	if found, _, err := l.Intents(t.Context(), ledger.Filter{}); err != nil || len(found) != 2 {
		t.Errorf("%d intents, %v", len(found), err)
	}
}
