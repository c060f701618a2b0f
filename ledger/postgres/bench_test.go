package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// claimBatch is how many effects one transaction claims in the benchmarks.
const claimBatch = 100

// BenchmarkClaim claims in batches of 100 by one connection.
func BenchmarkClaim(b *testing.B) {
	l, _ := open(b)
	b.ResetTimer()
	for n := 0; n < b.N; n += claimBatch {
		claimMany(b, l, min(claimBatch, b.N-n), n)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
}

func claimMany(b *testing.B, l *postgres.Ledger, n, from int) {
	b.Helper()
	claims := make([]ledger.Claim, n)
	for i := range claims {
		claims[i] = newClaim(fmt.Sprintf("mail:bench:%d", from+i))
	}
	claim(b, l, claims...)
}

// BenchmarkDrain fences in batches and stamps and commits each effect by itself, log and signed receipt included, as an engine does.
func BenchmarkDrain(b *testing.B) {
	for _, workers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l, url := open(b, func(o *postgres.Options) { o.MaxConns = int32(min(workers+2, 32)) })
			p := pool(b, url)
			before := tableBytes(b, p)
			for n := 0; n < b.N; n += claimBatch {
				claimMany(b, l, min(claimBatch, b.N-n), n)
			}
			if _, err := p.Exec(b.Context(), "ANALYZE"); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			drain(b, l, workers, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
			b.StopTimer()
			b.ReportMetric(float64(tableBytes(b, p)-before)/float64(b.N), "table-B/effect")
			_ = l.Close() // a session reports what it counted when it ends
			b.ReportMetric(hotRatio(b, p), "hot-ratio")
		})
	}
}

// tableBytes is what tables and indexes hold on disk.
func tableBytes(b *testing.B, p *pgxpool.Pool) (n int64) {
	b.Helper()
	const sum = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
	if err := p.QueryRow(b.Context(), sum).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func drain(b *testing.B, l *postgres.Ledger, workers, want int) {
	b.Helper()
	work := make(chan ledger.Dispatch, 2*workers)
	var done atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for d := range work {
				stamped, err := l.Move(b.Context(), d.Intent.Key, stampOf(d))
				if err == nil {
					_, err = l.Move(b.Context(), d.Intent.Key, ledger.Commit{
						Fence: stamped.Intent.Fence(), Evidence: channel.Evidence{ID: d.Intent.Key.String()}, Established: ledger.BySend,
					})
				}
				if err != nil {
					b.Error(err)
				}
				done.Add(1)
			}
		})
	}
	for given := 0; given < want; {
		r, err := l.Fence(b.Context(), fenceRequest(min(100, max(workers, 10))))
		if err != nil {
			b.Error(err)
			break
		}
		if len(r.Dispatches) == 0 {
			b.Errorf("nothing left after %d of %d", given, want)
			break
		}
		for _, d := range r.Dispatches {
			work <- d
		}
		given += len(r.Dispatches)
	}
	close(work)
	group.Wait()
}

// hotRatio is the share of updates of effect_intents that touched no index. The server's counters arrive with a delay.
func hotRatio(t testing.TB, p *pgxpool.Pool) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var all, hot, before int64
	for {
		err := p.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'effect_intents'`).Scan(&all, &hot)
		if err != nil {
			t.Fatal(err)
		}
		if all > 0 && all == before {
			return float64(hot) / float64(all)
		}
		before = all
		select {
		case <-ctx.Done():
			t.Fatal("the server counts no updates")
		case <-time.After(1100 * time.Millisecond): // sessions report at most once a second
		}
	}
}
