package postgres_test

import (
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// TestLockOfASchemaChangeDelaysMovesAndLosesNothing locks the table as ALTER TABLE does, around each of the two writes of a send. The
// statement time-out is what the commit bound says; a move that it ends is as if it had not been asked for.
func TestLockOfASchemaChangeDelaysMovesAndLosesNothing(t *testing.T) {
	l, url := open(t, func(o *postgres.Options) { o.StatementTimeout = 500 * time.Millisecond })
	p := pool(t, url)
	k := claim(t, l, newClaim("mail:a"))[0].Key
	d := take(t, l, 1).Dispatches[0]
	locked := func(m ledger.Move) {
		t.Helper()
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "LOCK TABLE effect_intents IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := l.Move(t.Context(), k, m); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%T beside the lock: %v after %s", m, err, time.Since(began))
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	locked(stampOf(d))
	if i, _, err := l.Intent(t.Context(), k); err != nil || i.Stamped() {
		t.Fatalf("a stamp that was reported as failed is there: %+v, %v", i, err)
	}
	stamped := move(t, l, k, stampOf(d))
	commit := ledger.Commit{Fence: stamped.Intent.Fence(), Evidence: channel.Evidence{ID: "a"}, Established: ledger.BySend}
	locked(commit)
	if i := move(t, l, k, commit).Intent; i.State != ledger.StateCommitted || i.Attempts != 1 {
		t.Errorf("got %s after %d attempts", i.Outcome(), i.Attempts)
	}
}
