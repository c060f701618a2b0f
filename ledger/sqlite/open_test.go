package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/migrations"
)

func TestOpenSaysWhatIsWrongWithThePath(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, says string }{
		{"", "Path is empty"},
		{":memory:", "plain file"},
		{"file:x.db", "plain file"},
		{folder, "is a folder"},
		{filepath.Join(folder, "missing", "ledger.db"), "does not exist"},
		{filepath.Join(text, "ledger.db"), "ledger"},
		{text, "not an SQLite database"},
		{os.DevNull, "not a regular file"},
	} {
		for name, f := range map[string]func() error{
			"open": func() error {
				_, err := sqlite.Open(t.Context(), sqlite.Options{Path: c.path})
				return err
			},
			"migrate": func() error {
				_, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: c.path})
				return err
			},
		} {
			if err := f(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %q: got %v, want it to say %q", name, c.path, err, c.says)
			}
		}
	}
}

func TestAPathMayHoldWhatAURLMayNot(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "50% of #1? & more")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "le dger.db")
	if _, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	openPath(t, path)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the ledger is not where its path says: %v", err)
	}
}

func TestOpenReportsAllFaultsAtOnce(t *testing.T) {
	_, err := sqlite.Open(t.Context(), sqlite.Options{Readers: -1, StatementTimeout: -1})
	for _, field := range []string{"Path", "Readers", "StatementTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want it to name %s", err, field)
		}
	}
}

func TestOpenRefusesALedgerThatIsNotMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	wants(t, err, ledger.ErrNotMigrated)
	if _, err := os.Stat(path); err == nil {
		t.Error("opening made a file")
	}
	db := openPlain(t, path)
	if _, err := db.Exec("CREATE TABLE other (x)"); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path})
	wants(t, err, ledger.ErrNotMigrated)
}

func TestOpenAndMigrateRefuseANewerLedger(t *testing.T) {
	path := newPath(t)
	if _, err := openPlain(t, path).Exec("INSERT INTO " + migrations.SQLiteTable + " (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	wants(t, err, ledger.ErrNewer)
	_, err = sqlite.Migrate(t.Context(), sqlite.Options{Path: path})
	wants(t, err, ledger.ErrNewer)
}

func TestOpenRefusesAnotherLedgerThanIsPinned(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	if _, err := uuid.Parse(l.ID()); err != nil {
		t.Errorf("the ledger's id: %v", err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, LedgerID: uuid.NewString()})
	wants(t, err, ledger.ErrOtherLedger)
	openPath(t, path, func(o *sqlite.Options) { o.LedgerID = l.ID() })
}

func TestMigrateTwiceIsHarmlessAndStatusSaysWhatIsApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := sqlite.Options{Path: path}
	before, err := sqlite.Status(t.Context(), o)
	if err != nil || len(before) == 0 || before[0].Applied {
		t.Fatalf("before: %+v, %v", before, err)
	}
	first, err := sqlite.Migrate(t.Context(), o)
	if err != nil || len(first) != len(before) {
		t.Fatalf("the first time %d of %d were applied: %v", len(first), len(before), err)
	}
	id := openPath(t, path).ID()
	second, err := sqlite.Migrate(t.Context(), o)
	if err != nil || len(second) != 0 {
		t.Errorf("the second time %d were applied: %v", len(second), err)
	}
	if again := openPath(t, path).ID(); again != id {
		t.Errorf("the ledger's id went from %s to %s", id, again)
	}
	after, err := sqlite.Status(t.Context(), o)
	if err != nil || !after[0].Applied || after[0].AppliedAt.IsZero() {
		t.Errorf("after: %+v, %v", after, err)
	}
}

func TestThePrintedMigrationsMakeALedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var script strings.Builder
	if err := migrations.PrintSQLite(&script, 0); err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(script.String(), ".bail on\n", "") // the shell's own command
	if _, err := openPlain(t, path).Exec(plain); err != nil {
		t.Fatal(err)
	}
	openPath(t, path)
}

func TestALedgerIsWrittenAheadAndFlushed(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	var mode string
	if err := openPlain(t, path).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal_mode is %q (%v)", mode, err)
	}
	if level, err := l.Synchronous(t.Context()); err != nil || level != 2 {
		t.Errorf("synchronous is %d (%v), want FULL", level, err)
	}
}

func TestACommitWhoseAnswerIsLostIsHarmlessToAskAgain(t *testing.T) {
	lies := &counter{}
	l := openEmpty(t, func(o *sqlite.Options) { o.Connector = lies.connector })
	putChannel(t, l, "mail")
	claimAll(t, l, newClaim(uuid.NewString()))
	i := fenceOne(t, l)
	token := channel.Token{Version: 1, Data: []byte("token")}
	stamp := ledger.Stamp{Fence: i.Fence(), Token: &token, SendTimeout: longEnough / 4, CommitBound: 1, Margin: 1}
	if _, err := l.Move(t.Context(), i.Key, stamp); err != nil {
		t.Fatal(err)
	}
	commit := ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: "250"}, Established: ledger.BySend}
	lies.lieAbout("COMMIT")
	_, err := l.Move(t.Context(), i.Key, commit)
	wants(t, err, errLie)
	r, err := l.Move(t.Context(), i.Key, commit)
	if err != nil || r.Intent.State != ledger.StateCommitted {
		t.Fatalf("asked again: %s, %v", r.Intent.State, err)
	}
	receipts, err := l.ReceiptsOf(t.Context(), i.Key)
	if err != nil || len(receipts) != 1 {
		t.Errorf("there are %d receipts (%v), want one", len(receipts), err)
	}
}

func TestNothingGoesOnAfterClose(t *testing.T) {
	l, err := sqlite.Open(t.Context(), sqlite.Options{Path: newPath(t)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := l.SetPaused(t.Context(), "mail", true, ""); err == nil {
		t.Error("a write went through a closed ledger")
	}
	if _, err := l.Stats(t.Context()); err == nil {
		t.Error("a read went through a closed ledger")
	}
	if err := l.InTx(t.Context(), func(ledger.Tx) error { return nil }); err == nil {
		t.Error("a transaction went through a closed ledger")
	}
}
