package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// longEnough is a time to live that no test outlives.
const longEnough = time.Hour

func leasedRun(t *testing.T, l *sqlite.Ledger) (string, fence.Lease) {
	t.Helper()
	run, _, err := l.CreateRun(t.Context(), fence.NewRun{})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), run.ID, fence.AcquireOptions{Owner: "worker", TTL: longEnough})
	if err != nil {
		t.Fatal(err)
	}
	return run.ID, lease
}

func TestReadersDoNotWaitForAWriter(t *testing.T) {
	l := openEmpty(t)
	putChannel(t, l, "mail")
	var k ledger.Key
	err := l.InTx(t.Context(), func(tx ledger.Tx) error {
		r, err := l.Claim(t.Context(), tx, newClaim(uuid.NewString()))
		if err != nil {
			return err
		}
		k = r[0].Key
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, _, err = l.Intent(ctx, k)
		if !errors.Is(err, ledger.ErrNoIntent) {
			return fmt.Errorf("a reader beside the writer got %w", err)
		}
		stats, err := l.Stats(ctx)
		if err != nil || stats.Waiting != 0 {
			return fmt.Errorf("a reader saw %d claims that are not committed: %w", stats.Waiting, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Intent(t.Context(), k); err != nil {
		t.Errorf("a reader after the commit: %v", err)
	}
}

func TestAWriterGivesUpInTimeAndGoesOnLater(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path, func(o *sqlite.Options) { o.StatementTimeout = 100 * time.Millisecond })
	putChannel(t, l, "mail")
	db := openPlain(t, path)
	tx, err := db.BeginTx(t.Context(), nil) // takes the write lock and keeps it
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := l.SetPaused(t.Context(), "mail", true, ""); err == nil {
		t.Error("a write went through beside another transaction")
	}
	if waited := time.Since(begun); waited > 20*time.Second {
		t.Errorf("it waited for %s, with a bound of 100 ms", waited)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wants(t, l.SetPaused(ctx, "mail", true, ""), context.Canceled)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := l.SetPaused(t.Context(), "mail", true, ""); err != nil {
		t.Errorf("after the other transaction's end: %v", err)
	}
}

func TestAWriterWaitsForAnotherProgramsTransaction(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path, func(o *sqlite.Options) { o.StatementTimeout = time.Minute })
	putChannel(t, l, "mail")
	tx, err := openPlain(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := l.SetPaused(t.Context(), "mail", true, "waited"); err != nil {
			t.Errorf("the write that waited: %v", err)
		}
	})
	if _, err := tx.Exec("UPDATE channels SET pause_reason = 'first' WHERE name = 'mail'"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	group.Wait()
	row, err := l.ChannelRow(t.Context(), "mail")
	if err != nil || row.PauseReason != "waited" {
		t.Errorf("the channel is paused for %q (%v), want what was written last", row.PauseReason, err)
	}
}

func TestACallersTransactionThatReadFirstIsToBeRunAgain(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	putChannel(t, l, "mail")
	db, err := sql.Open("sqlite", "file:"+path) // deferred, as database/sql begins by itself
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	claim := newClaim(uuid.NewString())
	attempt := func(interfere bool) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM effect_intents").Scan(&n); err != nil {
			return err
		}
		if interfere {
			claimAll(t, l, newClaim(uuid.NewString()))
		}
		if _, err := l.Claim(t.Context(), sqlite.Tx(tx), claim); err != nil {
			return err
		}
		return tx.Commit()
	}
	wants(t, attempt(true), ledger.ErrRetryTransaction)
	if err := attempt(false); err != nil {
		t.Errorf("run again: %v", err)
	}
}

func TestACallersTransactionCarriesTheClaim(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	putChannel(t, l, "mail")
	db := openPlain(t, path)
	if _, err := db.Exec("CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	for _, commits := range []bool{false, true} {
		c := newClaim(uuid.NewString())
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO orders VALUES (?)", c.RunID); err != nil {
			t.Fatal(err)
		}
		r, err := l.Claim(t.Context(), sqlite.Tx(tx), c)
		if err != nil || r[0].Status != ledger.ClaimNew {
			t.Fatalf("claim: %v %v", r, err)
		}
		end := tx.Rollback
		if commits {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		var orders int
		if err := db.QueryRow("SELECT count(*) FROM orders WHERE id = ?", c.RunID).Scan(&orders); err != nil {
			t.Fatal(err)
		}
		_, _, err = l.Intent(t.Context(), r[0].Key)
		if there := err == nil; there != commits || (orders == 1) != commits {
			t.Errorf("committed %t: the order is there %t, the intent %t (%v)", commits, orders == 1, there, err)
		}
	}
}

func TestATransactionOnAnotherFileIsRefused(t *testing.T) {
	l := openEmpty(t)
	putChannel(t, l, "mail")
	other := openPlain(t, newPath(t))
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	_, err = l.Claim(t.Context(), sqlite.Tx(tx), newClaim(uuid.NewString()))
	wants(t, err, ledger.ErrOtherLedger)
	if _, err = l.Claim(t.Context(), ledger.SealTx("nonsense"), newClaim(uuid.NewString())); err == nil {
		t.Error("a handle of nothing was taken")
	}
}

func TestAHandleOfAnEndedTransactionIsRefused(t *testing.T) {
	l := openEmpty(t)
	putChannel(t, l, "mail")
	var kept ledger.Tx
	if err := l.InTx(t.Context(), func(tx ledger.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Claim(t.Context(), kept, newClaim(uuid.NewString())); err == nil {
		t.Error("a claim went through a transaction that had ended")
	}
}

func TestWaitingWritersShareAFlushAndNotAFailure(t *testing.T) {
	commits := &counter{}
	l := openEmpty(t, func(o *sqlite.Options) { o.Connector = commits.connector })
	putChannel(t, l, "mail")
	before := commits.count("COMMIT")
	const writers = 32
	var group sync.WaitGroup
	failed := make([]error, writers)
	err := l.InTx(t.Context(), func(ledger.Tx) error { // while somebody writes, the others gather
		for n := range writers {
			name := "mail"
			if n%4 == 0 {
				name = "nowhere"
			}
			group.Go(func() { failed[n] = l.SetPaused(t.Context(), name, true, "") })
		}
		for deadline := time.Now().Add(10 * time.Second); l.Waiting() < writers; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("the writers did not come")
			}
		}
		return nil
	})
	group.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for n, err := range failed {
		if want := n%4 == 0; errors.Is(err, ledger.ErrUnknownChannel) != want || (err != nil) != want {
			t.Errorf("writer %d got %v", n, err)
		}
	}
	if n := commits.count("COMMIT") - before; n > 3 {
		t.Errorf("%d writers needed %d commits", writers, n)
	}
}

func TestAPanicInAFunctionEndsOnlyItsTransaction(t *testing.T) {
	l := openEmpty(t)
	putChannel(t, l, "mail")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come back")
			}
		}()
		_ = l.InTx(t.Context(), func(tx ledger.Tx) error {
			if _, err := l.Claim(t.Context(), tx, newClaim(uuid.NewString())); err != nil {
				return err
			}
			panic("in the middle")
		})
	}()
	claimAll(t, l, newClaim(uuid.NewString()))
	stats, err := l.Stats(t.Context())
	if err != nil || stats.Waiting != 1 {
		t.Errorf("%d intents wait (%v), want the one that was committed", stats.Waiting, err)
	}
}
