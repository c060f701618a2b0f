package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlworks/pawl/ledger/sqlite"
)

func TestALedgerIsReadByItsOwnerOnly(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	o := sqlite.Options{Path: path}
	if _, err := sqlite.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // the write-ahead log and its index, too
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", f.Name(), info.Mode().Perm())
		}
	}
	if len(files) != 3 {
		t.Errorf("%d files, want the ledger, its log and the log's index", len(files))
	}
}

// An operator who wants more, or less, makes the file himself.
func TestMigrateKeepsTheModeOfAFileThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
