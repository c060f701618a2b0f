package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's driver of the same name

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

func TestFenceWaitsForNobody(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	one, two := newClaim("mail:a"), newClaim("mail:b")
	one.Lane = "held"
	claim(t, l, one, two)
	locks := map[string]string{
		"intent":     "SELECT FROM effect_intents WHERE effect_key = 'mail:a' FOR UPDATE",
		"queue row":  "SELECT FROM dispatch_queue WHERE effect_key = 'mail:a' FOR UPDATE",
		"lane":       "SELECT FROM lanes WHERE lane = 'held' FOR UPDATE",
		"lane order": "SELECT FROM lane_order WHERE lane = 'held' FOR UPDATE",
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			tx, err := p.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := tx.Exec(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			r := take(t, l, 10)
			if took := time.Since(begun); took > postgres.DefaultStatementTimeout/2 {
				t.Errorf("the fence took %s beside a lock", took)
			}
			for _, d := range r.Dispatches { // back, for the next lock
				move(t, l, d.Intent.Key, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
			}
			if name != "lane order" && len(r.Dispatches) != 1 {
				t.Errorf("beside the lock %d were fenced, want the other one", len(r.Dispatches))
			}
		})
	}
}

func TestOneOfManyClaimersIsFirst(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	c := newClaim("mail:a")
	c.Lane = "l"
	var mu sync.Mutex
	var group sync.WaitGroup
	count := map[ledger.ClaimStatus]int{}
	for range 8 {
		group.Go(func() {
			err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
				r, err := l.Claim(t.Context(), postgres.Tx(tx), c)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					count[r[0].Status]++
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if count[ledger.ClaimNew] != 1 || count[ledger.ClaimDeduplicated] != 7 {
		t.Errorf("8 claims of one key: %v", count)
	}
}

func TestBatchesInAnyOrderDoNotDeadlock(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			var claims []ledger.Claim
			for i := range 20 {
				at := i
				if n%2 == 1 {
					at = 19 - i
				}
				c := newClaim(fmt.Sprintf("mail:%d", at))
				c.RunID = fmt.Sprintf("00000000-0000-4000-8000-%012d", at)
				c.Lane = fmt.Sprintf("lane-%d", at%5)
				claims = append(claims, c)
			}
			err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
				_, err := l.Claim(t.Context(), postgres.Tx(tx), claims...)
				return err
			})
			if err != nil {
				t.Errorf("a batch among batches: %v", err)
			}
		})
	}
	group.Wait()
}

func TestPlaceThatADuplicateLeftEmptyIsPassedOver(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	c := newClaim("mail:twice")
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Claim(t.Context(), postgres.Tx(tx), c); err != nil {
		t.Fatal(err)
	}
	laned := c
	laned.Lane = "l"
	waiting := make(chan ledger.ClaimResult, 1)
	var group sync.WaitGroup
	group.Go(func() { waiting <- claim(t, l, laned)[0] })
	for blocked := 0; blocked == 0; { // the duplicate has its place and waits for the first
		if err := p.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if r := <-waiting; r.Status != ledger.ClaimDeduplicated {
		t.Fatalf("the duplicate is %s", r.Status)
	}
	first, second := newClaim("mail:first"), newClaim("mail:second")
	first.Lane, second.Lane = "l", "l"
	claim(t, l, first)
	claim(t, l, second)
	var sent []string
	for range 6 {
		for _, d := range take(t, l, 10).Dispatches {
			send(t, l, d)
			sent = append(sent, d.Intent.EffectKey)
		}
		if _, err := l.Scan(t.Context(), ledger.Key{}, 100); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[mail:twice mail:first mail:second]"; fmt.Sprint(sent) != want {
		t.Errorf("sent %v, want %s", sent, want)
	}
}

func TestClaimsThroughDatabaseSQL(t *testing.T) {
	l, url := open(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	in := func(end func(*sql.Tx) error, f func(tx ledger.Tx) error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := f(postgres.SQLTx(tx)); err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(c ledger.Claim) string {
		p, err := ledger.Prepare(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ledger.ApprovalDigest(c.Channel, c.EffectKey, p.PayloadDigest)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c := newClaim("mail:a")
	c.Lane, c.ExpiresAt = "l", time.Now().Add(time.Hour)
	c.Approval = &ledger.Approval{By: "ann", Reference: "r-1", Digest: digest(c)}
	for _, step := range []struct {
		end  func(*sql.Tx) error
		want ledger.ClaimStatus
	}{{(*sql.Tx).Rollback, ledger.ClaimNew}, {(*sql.Tx).Commit, ledger.ClaimNew}, {(*sql.Tx).Commit, ledger.ClaimDeduplicated}} {
		in(step.end, func(tx ledger.Tx) error {
			r, err := l.Claim(t.Context(), tx, c)
			if err == nil && (r[0].Status != step.want || r[0].Intent.Approval.Reference != "r-1") {
				t.Errorf("claim: %+v, want %s", r[0], step.want)
			}
			return err
		})
	}
	for _, want := range []bool{true, false} {
		in((*sql.Tx).Commit, func(tx ledger.Tx) error {
			first, err := l.RecordOnce(t.Context(), tx, c.RunID, `quoted "key" \ 1`, 0)
			if first != want {
				t.Errorf("record: first is %v, want %v", first, want)
			}
			return err
		})
	}
	if n := len(take(t, l, 10).Dispatches); n != 1 {
		t.Errorf("%d were fenced, want one", n)
	}
}

func TestTransactionOfAnotherBackendIsRefused(t *testing.T) {
	l, _ := open(t)
	for name, tx := range map[string]ledger.Tx{"zero": {}, "foreign": ledger.SealTx("sqlite")} {
		var wrong *ledger.InvalidError
		if _, err := l.Claim(t.Context(), tx, newClaim("mail:a")); !errors.As(err, &wrong) || wrong.Field != "tx" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSerializationFailureInTheCallersTransactionAsksForARetry(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	c := newClaim("mail:a")
	tx, err := p.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM effect_intents"); err != nil { // its snapshot is older than the other claim
		t.Fatal(err)
	}
	claim(t, l, c)
	if _, err := l.Claim(t.Context(), postgres.Tx(tx), c); !errors.Is(err, ledger.ErrRetryTransaction) {
		t.Errorf("a duplicate that the snapshot cannot see: %v", err)
	}
}
