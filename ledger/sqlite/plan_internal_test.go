package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNoHotStatementReadsAWholeTable asks SQLite how it would run what runs for every effect. "SCAN i" is the page of a scan, that is all.
func TestNoHotStatementReadsAWholeTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var hot []string
	o := Options{Path: path}
	if _, err := Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	hot = append(hot, selectSnapshot, selectIntent, updateStep, insertIntent, selectAmiss, selectDue, selectDueLooks, selectSilentLooks, selectNextDue, selectNextInLane,
		letNextInLaneGo, selectTokens, selectLate, "SELECT "+nextIssue)
	for _, query := range hot {
		rows, err := l.readDB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		t.Logf("%s\n%s", query, strings.Join(plan, "\n"))
		for _, detail := range plan {
			if strings.HasPrefix(detail, "SCAN") && !strings.HasPrefix(detail, "SCAN CONSTANT ROW") && !strings.Contains(detail, "json_each") && detail != "SCAN i" {
				t.Errorf("%q in the plan of %s", detail, query)
			}
		}
	}
}
