package sqlite

import (
	"database/sql"
	"strings"
	"testing"
	"time"
)

func TestAFileThatCannotBeWrittenAheadIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:") // the database that has no write-ahead log anywhere
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := writeAhead(t.Context(), db, time.Second); err == nil || !strings.Contains(err.Error(), "write-ahead") {
		t.Errorf("got %v", err)
	}
}

func TestACommitThatWouldNotBeFlushedIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/x.db?_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := writeAhead(t.Context(), db, time.Second); err == nil || !strings.Contains(err.Error(), "FULL") {
		t.Errorf("got %v", err)
	}
}
