package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/ledger"
)

func TestUpdatesOfIntentsTouchNoIndex(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	var claims []ledger.Claim
	for n := range 60 {
		claims = append(claims, newClaim(fmt.Sprintf("mail:%d", n)))
	}
	claim(t, l, claims...)
	for {
		r := take(t, l, 10)
		if len(r.Dispatches) == 0 {
			break
		}
		for _, d := range r.Dispatches {
			send(t, l, d)
		}
	}
	if err := l.Close(); err != nil { // a session reports what it counted when it ends
		t.Fatal(err)
	}
	if ratio := hotRatio(t, p); ratio < 0.9 {
		t.Errorf("%.2f of the updates touched no index, want 0.9 or more", ratio)
	}
	rows, err := p.Query(t.Context(), "SELECT indexdef FROM pg_indexes WHERE tablename = 'effect_intents'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var def string
		if err := rows.Scan(&def); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(def, "(run_id, effect_key)") && !strings.Contains(def, "(lane, lane_position)") {
			t.Errorf("an index on columns that change: %s", def)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
