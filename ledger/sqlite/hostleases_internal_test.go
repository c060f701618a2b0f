package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExpiriesOfAHostAreReadAsTheyAreWritten(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, v := range map[string]any{
		"RFC 3339": "2026-01-02T03:04:05Z", "with an offset": "2026-01-02T12:04:05+09:00", "the ledger's own": want.Format(timeLayout),
		"of datetime()": "2026-01-02 03:04:05", "as bytes": []byte("2026-01-02T03:04:05.000Z"), "seconds": want.Unix(), "seconds, real": float64(want.Unix()),
		"read by the driver": want.Local(),
	} {
		if got, err := hostTime(v); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v is read as %s, %v", name, v, got, err)
		}
	}
	for name, v := range map[string]any{
		"milliseconds": want.UnixMilli(), "a negative number": int64(-1), "a date alone": "2026-01-02", "a word": "infinity", "digits in a text": "1767323045",
	} {
		if got, err := hostTime(v); err == nil {
			t.Errorf("%s: %v is read as %s; a lease would end at some other time", name, v, got)
		}
	}
	if got, err := hostTime(nil); err != nil || !got.IsZero() {
		t.Errorf("NULL is read as %s, %v; want no time", got, err)
	}
}

// TestListsAndCountsGoByTheirIndexes asks SQLite how it would run what is asked for again and again.
func TestListsAndCountsGoByTheirIndexes(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "ledger.db")}
	if _, err := Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for query, index := range map[string]string{
		selectLive: "effect_intents_live", selectReceipts(""): "receipts_issue", selectReceipts("x"): "receipts_intent",
		selectToken + " WHERE digest = ?": "api_tokens_2", // of the unique digest
	} {
		rows, err := l.readDB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatal(err)
		}
		plan := ""
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan += detail + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, index) {
			t.Errorf("%s\ngoes by\n%swant %s", query, plan, index)
		}
	}
}
