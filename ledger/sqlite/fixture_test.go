package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// newPath migrates an empty ledger and returns its path.
func newPath(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := sqlite.Migrate(t.Context(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	return path
}

// openPath opens a ledger and closes it after the test.
func openPath(t testing.TB, path string, change ...func(*sqlite.Options)) *sqlite.Ledger {
	t.Helper()
	o := sqlite.Options{Path: path}
	for _, c := range change {
		c(&o)
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
	return l
}

func openEmpty(t testing.TB, change ...func(*sqlite.Options)) *sqlite.Ledger {
	t.Helper()
	return openPath(t, newPath(t), change...)
}

func putChannel(t testing.TB, l *sqlite.Ledger, name string) {
	t.Helper()
	if err := l.PutChannel(t.Context(), ledger.ChannelRow{Name: name, Kind: "mail", Sheet: channel.Sheet{Kind: "mail"}, Flag: ledger.FlagOn}); err != nil {
		t.Fatal(err)
	}
}

func newClaim(run string) ledger.Claim {
	return ledger.Claim{RunID: run, EffectKey: "mail:" + uuid.NewString(), Channel: "mail", Payload: []byte(`{"to":"ann@example.org"}`)}
}

func claimAll(t testing.TB, l *sqlite.Ledger, claims ...ledger.Claim) []ledger.ClaimResult {
	t.Helper()
	var results []ledger.ClaimResult
	err := l.InTx(t.Context(), func(tx ledger.Tx) (err error) {
		results, err = l.Claim(t.Context(), tx, claims...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func wants(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}
