package ledgertest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func fenceTopic() topic {
	return topic{"fence", []testCase{
		{name: "takes at most its limit, and only its own channel's", run: fenceLimit},
		{name: "gives each intent a number of its own, its owner, term and epoch", run: fenceNumbers},
		{name: "brings the stored tokens", run: fenceTokens},
		{name: "leaves what is not due and says when it will be", run: fenceDue},
		{name: "abandons what has expired as never sent", run: fenceExpired},
		{name: "leaves a paused channel alone", run: fencePaused},
		{name: "past the ceiling of starts quarantines", run: fenceStartCeiling},
		{name: "of what a person let go again passes the ceiling once", run: fenceReleased},
		{name: "past the ceiling of attempts abandons what is proven unsent and holds the rest", run: fenceAttemptCeiling},
		{name: "by two workers at once never gives one intent to both", run: fenceRace},
		{name: "does not wait for a row that somebody holds", run: fenceSkipsLocked, needsWriters: true},
		{name: "takes one intent for the lease holder and verifies the lease", run: fenceOnly},
		{name: "with nothing to do says so", run: fenceNothing},
		{name: "of an intent in doubt that must not go is a probing one", run: fenceInDoubt},
	}}
}

func fenceLimit(f *fixture) {
	var keys []ledger.Key
	for range 7 {
		keys = append(keys, f.claim())
	}
	other := f.addChannel(exactSheet())
	f.claim(func(c *ledger.Claim) { c.Channel = other })
	seen := map[ledger.Key]bool{}
	for _, want := range []int{3, 3, 1, 0} {
		r := f.fence(3)
		if len(r.Dispatches) != want {
			f.t.Fatalf("got %d dispatches, want %d", len(r.Dispatches), want)
		}
		for _, d := range r.Dispatches {
			if !slices.Contains(keys, d.Intent.Key) || seen[d.Intent.Key] {
				f.t.Errorf("%s was not wanted, or came twice", d.Intent.Key)
			}
			seen[d.Intent.Key] = true
		}
	}
}

func fenceNumbers(f *fixture) {
	k := f.claim()
	epoch, err := f.Ledger.Epoch(f.ctx())
	f.must(err)
	r := f.fence(1)
	i := r.Dispatches[0].Intent
	if i.State != ledger.StateDispatched || i.Fence() != (fence.Fence{Epoch: epoch, Number: 1, Owner: engine}) || i.Starts != 1 {
		f.t.Errorf("fenced as %s, start %d", i.Fence(), i.Starts)
	}
	if d := i.FenceExpiresAt.Sub(r.Now) - longEnough; d < -time.Millisecond || d > time.Millisecond {
		f.t.Errorf("the fence ends %s off its term", d)
	}
	if stored := f.read(k); stored.Fence() != i.Fence() || !stored.FenceExpiresAt.Equal(i.FenceExpiresAt) {
		f.t.Errorf("stored is %s until %s, told was %s until %s", stored.Fence(), stored.FenceExpiresAt, i.Fence(), i.FenceExpiresAt)
	}
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNoStamp})
	again := f.fenced(k).Intent
	if again.FenceNumber <= i.FenceNumber || again.Starts != 2 {
		f.t.Errorf("the second fence is number %d, start %d", again.FenceNumber, again.Starts)
	}
	if log := f.outcomes(k); log != "fenced reopened fenced" {
		f.t.Errorf("log is %q", log)
	}
}

func fenceTokens(f *fixture) {
	k := f.claim()
	d := f.fenced(k)
	if len(d.Tokens) != 0 {
		f.t.Errorf("a first dispatch has %d tokens", len(d.Tokens))
	}
	t := newToken(1)
	f.move(k, ledger.PutToken{Fence: d.Intent.Fence(), Token: t})
	f.move(k, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
	d = f.fence(1).Dispatches[0]
	if len(d.Tokens) != 1 || string(d.Tokens[0].Data) != string(t.Data) || string(d.Tokens[0].Hint) != string(t.Hint) || d.Tokens[0].MadeAt.IsZero() {
		f.t.Errorf("the second dispatch brings %+v, want %+v", d.Tokens, t)
	}
}

func fenceDue(f *fixture) {
	late := f.claim(func(c *ledger.Claim) { c.DueAt = f.now().Add(time.Hour) })
	r := f.fence(5)
	if len(r.Dispatches)+len(r.Settled) != 0 {
		f.t.Fatalf("took something that is due in an hour: %+v", r)
	}
	if r.NextDue < 59*time.Minute || r.NextDue > time.Hour {
		f.t.Errorf("next due in %s, want about an hour", r.NextDue)
	}
	now := f.claim()
	soon := f.now().Add(80 * time.Millisecond)
	f.claim(func(c *ledger.Claim) { c.DueAt = soon })
	if r := f.fence(5); len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != now {
		f.t.Errorf("a waiting intent kept others from going: %d dispatches", len(r.Dispatches))
	}
	f.after(soon)
	if n := len(f.fence(5).Dispatches); n != 1 {
		f.t.Errorf("%d came due, want 1", n)
	}
	f.is(late, ledger.StateIntent)
}

func fenceExpired(f *fixture) {
	end := f.now().Add(50 * time.Millisecond)
	k := f.claim(func(c *ledger.Claim) { c.ExpiresAt = end })
	live := f.claim()
	f.after(end)
	r := f.fence(5)
	if len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != live || len(r.Settled) != 1 || r.Settled[0].Key != k {
		f.t.Fatalf("got dispatches %d, settled %d", len(r.Dispatches), len(r.Settled))
	}
	if i := f.is(k, ledger.StateAbandoned); i.AbandonedAs != ledger.NeverSent || i.AbandonReason == "" || i.Starts != 0 || i.CommittedAt.IsZero() {
		f.t.Errorf("it ended as %+v", i)
	}
	if rs := f.receipts(k); len(rs) != 1 || rs[0].Outcome != "abandoned" {
		f.t.Errorf("its receipts are %+v", rs)
	}
}

func fencePaused(f *fixture) {
	f.claim()
	f.must(f.Ledger.SetPaused(f.ctx(), f.channel, true, "breaker open"))
	if r := f.fence(5); len(r.Dispatches)+len(r.Settled) != 0 {
		f.t.Errorf("a paused channel gave %+v", r)
	}
	f.must(f.Ledger.SetPaused(f.ctx(), f.channel, false, ""))
	if r := f.fence(5); len(r.Dispatches) != 1 {
		f.t.Errorf("a channel that goes on gave %d", len(r.Dispatches))
	}
}

func fenceStartCeiling(f *fixture) {
	k := f.claim()
	ceiling := func(r *ledger.FenceRequest) { r.StartCeiling = 2 }
	for range 2 {
		d := f.fence(1, ceiling).Dispatches[0]
		f.move(k, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
	}
	r := f.fence(1, ceiling)
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 {
		f.t.Fatalf("past the ceiling it gave %d dispatches, %d settled", len(r.Dispatches), len(r.Settled))
	}
	if i := f.is(k, ledger.StateDispatched); !i.Held() || !i.Probing || i.Starts != 2 {
		f.t.Errorf("it is %+v, want held", i)
	}
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 || looks[0] != k {
		f.t.Errorf("a quarantined intent is not looked at: %v", looks)
	}
}

func fenceReleased(f *fixture) {
	k := f.claim()
	ceiling := func(r *ledger.FenceRequest) { r.StartCeiling = 1 }
	f.move(k, ledger.Reopen{Fence: f.fenced(k).Intent.Fence(), Proof: ledger.ProofNoStamp})
	f.fence(1, ceiling)
	p := f.move(k, ledger.ProbeFence{Owner: "ann", TTL: longEnough, Person: true}).Intent
	f.move(k, ledger.Resolve{Fence: p.Fence(), As: ledger.DecideRetry, By: "Ann", Reason: "the host was bad"})
	r := f.fence(1, ceiling)
	if len(r.Dispatches) != 1 {
		f.t.Fatalf("let go by a person, it gave %d dispatches, settled %+v", len(r.Dispatches), r.Settled)
	}
	f.move(k, ledger.Reopen{Fence: r.Dispatches[0].Intent.Fence(), Proof: ledger.ProofNoStamp})
	if r := f.fence(1, ceiling); len(r.Dispatches) != 0 || len(r.Settled) != 1 || !r.Settled[0].Held() {
		f.t.Errorf("the ceiling is gone for good: %+v", r)
	}
}

func fenceAttemptCeiling(f *fixture) {
	clean, doubtful := f.claim(), f.use(replaySheet()).claim()
	i := f.stamped(clean)
	f.move(clean, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent, Error: "connection refused"})
	i = f.stamped(doubtful)
	f.move(doubtful, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	for _, k := range []ledger.Key{clean, doubtful} {
		r := f.fence(1, func(r *ledger.FenceRequest) { r.Only, r.Channel, r.AttemptCeiling = &k, f.read(k).Channel, 1 })
		if len(r.Dispatches) != 0 || len(r.Settled) != 1 {
			f.t.Fatalf("past the ceiling %s gave %d dispatches, %d settled", k, len(r.Dispatches), len(r.Settled))
		}
	}
	if i := f.is(clean, ledger.StateAbandoned); i.AbandonedAs != ledger.NeverSent {
		f.t.Errorf("the proven one ended as %s", i.AbandonedAs)
	}
	if i := f.is(doubtful, ledger.StateDispatched); !i.Held() || !i.InDoubt() {
		f.t.Errorf("the doubtful one is %+v, want held and in doubt", i)
	}
}

func fenceRace(f *fixture) {
	const total, workers = 60, 4
	claims := make([]ledger.Claim, total)
	for n := range claims {
		claims[n] = f.newClaim()
	}
	f.claimAll(claims...)
	var mu sync.Mutex
	var errs []error
	seen := map[ledger.Key]int{}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for empty := 0; empty < 5; {
				r, err := f.Ledger.Fence(f.ctx(), f.request(4, func(r *ledger.FenceRequest) { r.Owner = uuid.NewString() }))
				mu.Lock()
				errs = append(errs, err)
				for _, d := range r.Dispatches {
					seen[d.Intent.Key]++
				}
				done := len(seen) == total
				mu.Unlock()
				if done || err != nil {
					return
				}
				if len(r.Dispatches) == 0 { // all that is left is locked by others
					empty++
				}
			}
		})
	}
	group.Wait()
	f.must(errors.Join(errs...))
	for range total {
		for _, d := range f.fence(total).Dispatches {
			seen[d.Intent.Key]++
		}
	}
	for k, n := range seen {
		if n != 1 {
			f.t.Errorf("%s was fenced %d times", k, n)
		}
	}
	if len(seen) != total {
		f.t.Errorf("%d of %d were fenced", len(seen), total)
	}
}

func fenceSkipsLocked(f *fixture) {
	first, second := f.claim(), f.claim()
	tx := f.begin()
	f.must(tx.Exec("SELECT 1 FROM effect_intents" + where(first) + " FOR UPDATE"))
	f.must(tx.Exec("SELECT 1 FROM dispatch_queue" + where(first) + " FOR UPDATE"))
	done := make(chan ledger.FenceResult, 1)
	var group sync.WaitGroup
	group.Go(func() {
		r, err := f.Ledger.Fence(f.ctx(), f.request(5))
		if err != nil {
			f.t.Errorf("fence beside a locked row: %v", err)
		}
		done <- r
	})
	select {
	case r := <-done:
		if len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != second {
			f.t.Errorf("beside a locked row it took %d, want the other one", len(r.Dispatches))
		}
	case <-time.After(2 * time.Second):
		f.t.Error("the fence waited for a row that somebody else holds")
	}
	f.must(tx.Rollback())
	group.Wait()
}

func fenceOnly(f *fixture) {
	run, l := f.leased("worker-1")
	f.run = run
	k := f.claim(lease(l))
	f.must(f.Exec(f.ctx(), "DELETE FROM dispatch_queue"+where(k)))
	if n := len(f.fence(5).Dispatches); n != 0 {
		f.t.Errorf("without a queue row %d were found", n)
	}
	gone := l
	gone.Fence.Number--
	_, err := f.Ledger.Fence(f.ctx(), f.request(1, func(r *ledger.FenceRequest) { r.Only, r.Lease = &k, &gone }))
	f.wants(err, fence.ErrLost)
	f.is(k, ledger.StateIntent)
	r := f.fence(1, func(r *ledger.FenceRequest) { r.Only, r.Lease = &k, &l })
	if len(r.Dispatches) != 1 || r.Dispatches[0].Intent.RunNumber != l.Fence.Number {
		f.t.Errorf("the lease holder got %d dispatches", len(r.Dispatches))
	}
	r = f.fence(1, func(r *ledger.FenceRequest) { r.Only, r.Lease = &k, &l })
	if len(r.Dispatches) != 0 {
		f.t.Error("an intent that is dispatched already was given out again")
	}
}

// leased makes a run and takes its lease.
func (f *fixture) leased(owner string) (string, fence.Lease) {
	f.t.Helper()
	run, _, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{ID: newRunID()})
	f.must(err)
	l, err := f.Ledger.Acquire(f.ctx(), run.ID, fence.AcquireOptions{Owner: owner, TTL: longEnough})
	f.must(err)
	return run.ID, l
}

func fenceNothing(f *fixture) {
	r := f.fence(5)
	if len(r.Dispatches)+len(r.Settled) != 0 || r.NextDue >= 0 || r.Now.IsZero() {
		f.t.Errorf("an empty channel gave %+v", r)
	}
}

func fenceInDoubt(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	f.move(k, ledger.RequestCancel{By: "Ann", Reason: "wrong address"})
	if i := f.is(k, ledger.StateIntent); i.CancelRequestedAt.IsZero() {
		f.t.Error("the cancel was not kept")
	}
	r := f.fence(1)
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 {
		f.t.Fatalf("a cancelled intent in doubt gave %d dispatches, %d settled", len(r.Dispatches), len(r.Settled))
	}
	i = f.is(k, ledger.StateDispatched)
	if !i.Probing || i.Starts != 1 || !i.InDoubt() {
		f.t.Errorf("it is %+v, want taken for probing with no start counted", i)
	}
	p := f.move(k, probeFence()).Intent
	f.move(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "found"}, Established: ledger.ByProbe})
	f.is(k, ledger.StateCommitted)
}
