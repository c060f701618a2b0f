package sqlite_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// BenchmarkEffects takes effects from claim to commit: batches of 50 are claimed and fenced, 8 workers stamp and commit.
func BenchmarkEffects(b *testing.B) {
	l := openEmpty(b, func(o *sqlite.Options) { o.Signer = new(ledgertest.Signer) })
	putChannel(b, l, "mail")
	for done := 0; done < b.N; {
		n := min(50, b.N-done)
		run := uuid.NewString()
		claims := make([]ledger.Claim, n)
		for i := range claims {
			claims[i] = newClaim(run)
		}
		claimAll(b, l, claims...)
		r, err := l.Fence(b.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "bench", TTL: time.Minute}, Channel: "mail", Limit: n})
		if err != nil || len(r.Dispatches) != n {
			b.Fatalf("fenced %d of %d: %v", len(r.Dispatches), n, err)
		}
		var group sync.WaitGroup
		work := make(chan ledger.Intent)
		for range 8 {
			group.Go(func() {
				for i := range work {
					stampAndCommit(b, l, i)
				}
			})
		}
		for _, d := range r.Dispatches {
			work <- d.Intent
		}
		close(work)
		group.Wait()
		done += n
	}
}

// BenchmarkOneByOne takes each effect alone: four transactions, four flushes.
func BenchmarkOneByOne(b *testing.B) {
	l := openEmpty(b, func(o *sqlite.Options) { o.Signer = new(ledgertest.Signer) })
	putChannel(b, l, "mail")
	for range b.N {
		claimAll(b, l, newClaim(uuid.NewString()))
		r, err := l.Fence(b.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "bench", TTL: time.Minute}, Channel: "mail", Limit: 1})
		if err != nil || len(r.Dispatches) != 1 {
			b.Fatalf("fenced %d: %v", len(r.Dispatches), err)
		}
		stampAndCommit(b, l, r.Dispatches[0].Intent)
	}
}

func stampAndCommit(t testing.TB, l *sqlite.Ledger, i ledger.Intent) {
	token := channel.Token{Version: 1, Data: []byte(i.Key.String())}
	_, err := l.Move(t.Context(), i.Key, ledger.Stamp{
		Fence: i.Fence(), Token: &token, SendTimeout: time.Second, CommitBound: time.Second, Margin: time.Second,
	})
	if err != nil {
		t.Errorf("stamp: %v", err)
		return
	}
	_, err = l.Move(t.Context(), i.Key, ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.BySend})
	if err != nil {
		t.Errorf("commit: %v", err)
	}
}
