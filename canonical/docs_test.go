package canonical

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tableAfter returns the cells, without their back quotes, of the table that
// follows a comment in docs/canonical.md.
func tableAfter(t *testing.T, comment string) [][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "canonical.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- "+comment)
	if !found {
		t.Fatalf("the page has no table %q", comment)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Split(strings.Trim(line, "| `"), "` | `"))
		} else if len(rows) > 0 {
			break
		}
	}
	return rows
}

func TestDocumentedValues(t *testing.T) {
	golden := tableAfter(t, "golden:")
	if len(golden) < 7 {
		t.Fatalf("the page lists %d values", len(golden))
	}
	for _, row := range golden {
		if len(row) != 3 {
			t.Fatalf("a row has %d cells: %q", len(row), row)
		}
		form, err := Transform([]byte(row[0]))
		if err != nil || string(form) != row[1] {
			t.Errorf("the form of %s is %s, %v; the page says %s", row[0], form, err, row[1])
		}
		if d, err := Sum([]byte(row[0])); err != nil || d.Hex() != row[2] {
			t.Errorf("the digest of %s is %s, %v; the page says %s", row[0], d.Hex(), err, row[2])
		}
	}
	resources := tableAfter(t, "resource ids:")
	if len(resources) == 0 {
		t.Fatal("the page lists no resource ids")
	}
	for _, row := range resources {
		id, err := DeterministicResourceID(row[0], row[1])
		if err != nil || id != row[2] {
			t.Errorf("the id of %q is %s, %v", row, id, err)
		}
		if run, err := ResourceRunID(id); err != nil || run != row[3] {
			t.Errorf("the run id of %q is %s, %v", row, run, err)
		}
	}
}
