package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	comment = regexp.MustCompile(`--[^\n]*`)
	table   = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\)`)
	column  = regexp.MustCompile(`^    ([a-z_]+)\s+\S`)
	added   = regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN (\w+)`)
)

// migrated returns the columns of each table that a backend's migrations make.
func migrated(t *testing.T, backend string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, text := range sources(t, "migrations/"+backend, ".sql") {
		text = comment.ReplaceAllString(text, "")
		for _, m := range table.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(m[2]) {
				if c := column.FindStringSubmatch(line); c != nil {
					found[m[1]] = append(found[m[1]], c[1])
				}
			}
		}
		for _, m := range added.FindAllStringSubmatch(text, -1) {
			found[m[1]] = append(found[m[1]], m[2])
		}
		if strings.Contains(text, "DROP COLUMN") || strings.Contains(text, "RENAME COLUMN") || strings.Contains(text, "DROP TABLE") {
			t.Fatalf("a migration for %s takes something away: teach this test to read it", backend)
		}
	}
	return found
}

// TestTheSchemaPageHasEveryTableAndColumn reads "## table" headings and rows that begin with one or more columns; the second cell says
// on which backend they are, if not on both.
func TestTheSchemaPageHasEveryTableAndColumn(t *testing.T) {
	described := map[string]map[string][]string{"postgres": {}, "sqlite": {}}
	name := ""
	for line := range strings.Lines(page(t, "ledger-schema.md")) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			name = strings.Trim(heading, "`")
			if name == heading {
				name = "" // a heading of prose
			}
			continue
		}
		cells := strings.Split(line, "|")
		if name == "" || len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		for c := range strings.SplitSeq(cells[1], ",") {
			c = strings.Trim(strings.TrimSpace(c), "`")
			where := strings.TrimSpace(cells[2])
			if where != "" && where != "Postgres" && where != "SQLite" {
				t.Errorf("%s.%s: %q is no backend", name, c, where)
			}
			if where != "SQLite" {
				described["postgres"][name] = append(described["postgres"][name], c)
			}
			if where != "Postgres" {
				described["sqlite"][name] = append(described["sqlite"][name], c)
			}
		}
	}
	for backend, have := range described {
		want := migrated(t, backend)
		if len(want) < 14 {
			t.Fatalf("%s: only %d tables were found in the migrations", backend, len(want))
		}
		for name, columns := range want {
			for _, c := range columns {
				if !slices.Contains(have[name], c) {
					t.Errorf("%s: %s.%s is not on the page", backend, name, c)
				}
			}
		}
		for name, columns := range have {
			for _, c := range columns {
				if !slices.Contains(want[name], c) {
					t.Errorf("%s: the page has %s.%s, the migrations have not", backend, name, c)
				}
			}
		}
	}
}

var eventName = regexp.MustCompile(`(?m)^\tEvent\w+\s*= "([a-z_.]+)"`)

func TestTheOperatingPageHasEveryLogEvent(t *testing.T) {
	text := page(t, "operating.md")
	found := 0
	for _, source := range sources(t, "core", "event.go") {
		for _, m := range eventName.FindAllStringSubmatch(source, -1) {
			found++
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("operating.md does not say what %s means", m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d events were found in core/event.go", found)
	}
}
