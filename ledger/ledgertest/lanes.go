package ledgertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func laneTopic() topic {
	return topic{"lanes", []testCase{
		{name: "give one intent at a time, in order of claim", run: laneOrder},
		{name: "order a batch by its claims' lanes and keys, and number without gaps", run: laneDense},
		{name: "place claims by commit, not by begin", run: laneByCommit, needsWriters: true},
		{name: "forget the place of a claim that was rolled back", run: laneRollback},
		{name: "keep a reopened head's place", run: laneReopenedHead},
		{name: "go on past what was cancelled before its turn", run: laneCancelled},
		{name: "go on past what expired at the fence", run: laneExpired},
		{name: "are blocked by a held head, unless the policy is skip", run: laneHeld},
		{name: "go on at accepted where the sheet says so", run: laneAccepted},
		{name: "let an intent go again whose turn had ended", run: laneAgain},
		{name: "do not delay each other", run: laneIndependent},
		{name: "go on when the next claim commits after the head ended", run: laneWanted, needsWriters: true},
		{name: "with thousands waiting stay quick for others", run: laneCrowd},
		{name: "survive many workers at once", run: laneRace},
	}}
}

// turns fences and ends whatever the lane gives, and returns the order.
func (f *fixture) turns() []ledger.Key {
	f.t.Helper()
	var order []ledger.Key
	for {
		r := f.fence(10)
		if len(r.Dispatches) == 0 {
			return order
		}
		if len(r.Dispatches) != 1 {
			f.t.Fatalf("a lane gave %d at once", len(r.Dispatches))
		}
		d := r.Dispatches[0]
		order = append(order, d.Intent.Key)
		f.move(d.Intent.Key, ledger.Abandon{Fence: d.Intent.Fence(), As: ledger.NeverSent, Reason: "test"})
	}
}

func sameKeys(f *fixture, got, want []ledger.Key) {
	f.t.Helper()
	if len(got) != len(want) {
		f.t.Fatalf("got %d keys, want %d:\n%v\n%v", len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			f.t.Errorf("number %d is %s, want %s", i, got[i].EffectKey, want[i].EffectKey)
		}
	}
}

func laneOrder(f *fixture) {
	lane := inLane("ann-" + f.run)
	var keys []ledger.Key
	for range 5 {
		keys = append(keys, f.claim(lane))
	}
	for range 3 { // asking again changes nothing
		if r := f.fence(5); len(r.Dispatches) > 1 {
			f.t.Fatalf("a lane gave %d at once", len(r.Dispatches))
		}
	}
	head := f.is(keys[0], ledger.StateDispatched)
	f.move(head.Key, ledger.Abandon{Fence: head.Fence(), As: ledger.NeverSent, Reason: "test"})
	sameKeys(f, f.turns(), keys[1:])
	next := f.claim(lane) // a lane that ran empty
	sameKeys(f, f.turns(), []ledger.Key{next})
}

func laneDense(f *fixture) {
	lane := "batch-" + f.run
	var claims []ledger.Claim
	for n := range 6 {
		c := f.newClaim(inLane(lane))
		c.EffectKey = fmt.Sprintf("mail:%d-%s", 9-n, f.run)
		claims = append(claims, c)
	}
	results, err := f.tryClaim(append(claims, claims[0])...)
	f.must(err)
	_, err = f.tryClaim(claims...) // deduplicated: must take no place
	f.must(err)
	var sorted []ledger.Key
	for n := range 6 {
		sorted = append(sorted, results[5-n].Key)
	}
	for n, k := range sorted {
		if i := f.read(k); i.LanePosition != int64(n+1) {
			f.t.Errorf("%s has place %d, want %d", k.EffectKey, i.LanePosition, n+1)
		}
	}
	next := f.claim(inLane(lane))
	if i := f.read(next); i.LanePosition != 7 {
		f.t.Errorf("after duplicates the next place is %d, want 7", i.LanePosition)
	}
	sameKeys(f, f.turns(), append(sorted, next))
}

func laneByCommit(f *fixture) {
	lane := inLane("commit-" + f.run)
	tx := f.begin()
	first, err := f.Ledger.Claim(f.ctx(), tx.Tx, f.newClaim(lane))
	f.must(err)
	var second ledger.Key
	var group sync.WaitGroup
	group.Go(func() {
		results, err := f.tryClaim(f.newClaim(lane))
		if err != nil || len(results) != 1 {
			f.t.Errorf("the claim behind an open one: %v", err)
			return
		}
		second = results[0].Key
	})
	other := f.claim(inLane("other-" + f.run)) // another lane does not wait
	time.Sleep(30 * time.Millisecond)          // gives the second claim the chance to overtake, which it must not
	f.must(tx.Commit())
	group.Wait()
	if a, b := f.read(first[0].Key).LanePosition, f.read(second).LanePosition; a != 1 || b != 2 {
		f.t.Errorf("places are %d and %d, want 1 and 2 in order of commit", a, b)
	}
	f.fenced(other)
	sameKeys(f, f.turns(), []ledger.Key{first[0].Key, second})
}

func laneRollback(f *fixture) {
	lane := inLane("rollback-" + f.run)
	tx := f.begin()
	_, err := f.Ledger.Claim(f.ctx(), tx.Tx, f.newClaim(lane), f.newClaim(lane))
	f.must(err)
	f.must(tx.Rollback())
	k := f.claim(lane)
	if i := f.read(k); i.LanePosition != 1 {
		f.t.Errorf("after a rollback the first place is %d", i.LanePosition)
	}
	sameKeys(f, f.turns(), []ledger.Key{k})
}

func laneReopenedHead(f *fixture) {
	lane := inLane("head-" + f.run)
	head, next := f.claim(lane), f.claim(lane)
	d := f.fence(5).Dispatches[0]
	f.move(head, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp, After: time.Hour})
	if r := f.fence(5); len(r.Dispatches) != 0 {
		f.t.Fatalf("a lane whose head waits gave %s", r.Dispatches[0].Intent.EffectKey)
	}
	f.is(next, ledger.StateIntent)
	f.move(head, ledger.RequestCancel{By: "ann"})
	sameKeys(f, f.turns(), []ledger.Key{next})
}

func laneCancelled(f *fixture) {
	lane := inLane("cancel-" + f.run)
	a, b, c, d := f.claim(lane), f.claim(lane), f.claim(lane), f.claim(lane)
	f.move(c, ledger.RequestCancel{By: "ann"})
	if r := f.fence(5); len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != a {
		f.t.Fatalf("after a cancel further down the lane gave %d", len(r.Dispatches))
	}
	f.move(b, ledger.RequestCancel{By: "ann"})
	head := f.read(a)
	f.move(a, ledger.Abandon{Fence: head.Fence(), As: ledger.NeverSent, Reason: "test"})
	sameKeys(f, f.turns(), []ledger.Key{d})
	e := f.claim(lane)
	f.move(e, ledger.RequestCancel{By: "ann"}) // the head itself, in a lane that was empty
	sameKeys(f, f.turns(), nil)
	g := f.claim(lane)
	sameKeys(f, f.turns(), []ledger.Key{g})
}

func laneExpired(f *fixture) {
	lane := inLane("expire-" + f.run)
	end := f.now().Add(50 * time.Millisecond)
	a := f.claim(lane, func(c *ledger.Claim) { c.ExpiresAt = end })
	b := f.claim(lane, func(c *ledger.Claim) { c.ExpiresAt = end })
	c := f.claim(lane)
	f.after(end)
	for range 5 {
		if r := f.fence(5); len(r.Dispatches) == 1 {
			if k := r.Dispatches[0].Intent.Key; k != c {
				f.t.Errorf("dispatched %s", k.EffectKey)
			}
			f.is(a, ledger.StateAbandoned)
			f.is(b, ledger.StateAbandoned)
			return
		}
	}
	f.t.Error("a lane whose head expired does not go on")
}

func laneHeld(f *fixture) {
	lane := inLane("held-" + f.run)
	head, next := f.claim(lane), f.claim(lane)
	i := f.stamped(head)
	f.move(head, ledger.Hold{Fence: i.Fence(), Reason: "look", Look: 0})
	if r := f.fence(5); len(r.Dispatches) != 0 {
		f.t.Errorf("a held head let %s go", r.Dispatches[0].Intent.EffectKey)
	}
	p := f.move(head, probeFence()).Intent
	f.move(head, ledger.Hold{Fence: p.Fence(), Reason: "look", Look: 0, FreeLane: true})
	if r := f.fence(5); len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != next {
		f.t.Fatalf("a skipped head gave %d dispatches", len(r.Dispatches))
	}
	third := f.claim(lane)
	p = f.move(head, probeFence()).Intent
	f.move(head, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.ByProbe}) // frees nothing twice
	if r := f.fence(5); len(r.Dispatches) != 0 {
		f.t.Errorf("the end of a skipped head gave %s the turn of another", r.Dispatches[0].Intent.EffectKey)
	}
	f.is(third, ledger.StateIntent)
}

func laneAccepted(f *fixture) {
	for _, frees := range []bool{false, true} {
		sheet := exactSheet()
		sheet.AcceptedFreesLane = frees
		f.use(sheet)
		lane := inLane(fmt.Sprintf("accepted-%v-%s", frees, f.run))
		head, next := f.claim(lane), f.claim(lane)
		i := f.stamped(head)
		f.move(head, ledger.Accept{Fence: i.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, LookAgain: time.Hour})
		if n := len(f.fence(5).Dispatches); (n == 1) != frees {
			f.t.Errorf("accepted frees the lane %v: %d dispatches", frees, n)
		}
		if !frees {
			p := f.move(head, probeFence()).Intent
			f.move(head, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.ByProbe})
			sameKeys(f, f.turns(), []ledger.Key{next})
		}
	}
}

func laneAgain(f *fixture) {
	lane := inLane("again-" + f.run)
	head, next := f.claim(lane), f.claim(lane)
	i := f.stamped(head)
	f.move(head, ledger.Hold{Fence: i.Fence(), Reason: "look", Look: 0, FreeLane: true})
	p := f.move(head, probeFence()).Intent
	f.move(head, ledger.Resolve{Fence: p.Fence(), As: ledger.DecideRetry, By: "Ann", Reason: "not there"})
	got := map[ledger.Key]bool{}
	for range 3 {
		for _, d := range f.fence(5).Dispatches {
			got[d.Intent.Key] = true
		}
	}
	if !got[head] || !got[next] {
		f.t.Errorf("a skipped intent that a person let go again: dispatched are %v, want it and the next", got)
	}
	f.must(f.Exec(f.ctx(), "DELETE FROM dispatch_queue"))
	for k := range got {
		f.move(k, ledger.Reopen{Fence: f.read(k).Fence(), Proof: ledger.ProofNoStamp})
	}
	f.must(f.Exec(f.ctx(), "DELETE FROM dispatch_queue"+where(head)))
	f.scanAll(100)
	if n := len(f.fence(5).Dispatches); n != 2 {
		f.t.Errorf("after a scan %d of the two went", n)
	}
}

func laneIndependent(f *fixture) {
	blocked, free := inLane("blocked-"+f.run), inLane("free-"+f.run)
	head := f.claim(blocked)
	for range 5 {
		f.claim(blocked)
	}
	i := f.stamped(head)
	f.move(head, ledger.Hold{Fence: i.Fence(), Reason: "look", Look: time.Hour})
	a, none := f.claim(free), f.claim()
	got := map[ledger.Key]bool{}
	for _, d := range f.fence(10).Dispatches {
		got[d.Intent.Key] = true
	}
	if len(got) != 2 || !got[a] || !got[none] {
		f.t.Errorf("beside a blocked lane %v went", got)
	}
}

func laneWanted(f *fixture) {
	lane := inLane("wanted-" + f.run)
	head := f.claim(lane)
	i := f.fence(5).Dispatches[0].Intent
	tx := f.begin()
	next, err := f.Ledger.Claim(f.ctx(), tx.Tx, f.newClaim(lane), f.newClaim(lane))
	f.must(err)
	f.move(head, ledger.Abandon{Fence: i.Fence(), As: ledger.NeverSent, Reason: "test"}) // must not wait for the open claim
	if r := f.fence(5); len(r.Dispatches) != 0 {
		f.t.Error("an intent was dispatched before its claim committed")
	}
	other := f.claim()
	if r := f.fence(5); len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != other {
		f.t.Error("an open claim of a lane stopped other intents")
	}
	f.must(tx.Commit())
	var order []ledger.Key
	for range 4 {
		for _, d := range f.fence(5).Dispatches {
			order = append(order, d.Intent.Key)
			f.move(d.Intent.Key, ledger.Abandon{Fence: d.Intent.Fence(), As: ledger.NeverSent, Reason: "test"})
		}
	}
	if len(order) != 2 {
		f.t.Fatalf("after the commit %d of two went, without a scan", len(order))
	}
	if a, b := f.read(order[0]).LanePosition, f.read(order[1]).LanePosition; a != 2 || b != 3 {
		f.t.Errorf("they went in places %d, %d", a, b)
	}
	_ = next
	tx = f.begin()
	_, err = f.Ledger.Claim(f.ctx(), tx.Tx, f.newClaim(lane))
	f.must(err)
	f.must(tx.Rollback()) // the place is given again
	last := f.claim(lane)
	sameKeys(f, f.turns(), []ledger.Key{last})
}

func laneCrowd(f *fixture) {
	const crowd = 3000
	lane := inLane("crowd-" + f.run)
	claims := make([]ledger.Claim, crowd)
	for n := range claims {
		claims[n] = f.newClaim(lane)
	}
	f.claimAll(claims...)
	f.fence(10)
	began := time.Now()
	const others = 20
	for range others {
		k := f.claim()
		r := f.fence(10)
		if len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != k {
			f.t.Fatalf("behind %d waiting intents %d went", crowd, len(r.Dispatches))
		}
	}
	// No bound on speed can be exact on a shared machine; one that looks at every waiting row each time takes many times longer.
	if took := time.Since(began); took > patience {
		f.t.Errorf("%d intents beside a lane with %d waiting took %s", others, crowd, took)
	}
	r := f.fence(10)
	if r.NextDue >= 0 && r.NextDue < time.Second {
		f.t.Errorf("intents that wait for their turn make the poller spin: next due in %s", r.NextDue)
	}
}

func laneRace(f *fixture) {
	const lanes, each, workers = 3, 8, 4
	var claims []ledger.Claim
	for n := range lanes * each {
		claims = append(claims, f.newClaim(inLane(fmt.Sprintf("race-%d-%s", n%lanes, f.run))))
	}
	f.claimAll(claims...)
	var mu sync.Mutex
	last := map[string]int64{}
	total := 0
	deadline := time.Now().Add(patience)
	var group sync.WaitGroup
	for n := range workers {
		group.Go(func() {
			for time.Now().Before(deadline) {
				mu.Lock()
				done := total == lanes*each
				mu.Unlock()
				if done {
					return
				}
				r, err := f.Ledger.Fence(f.ctx(), f.request(2, func(r *ledger.FenceRequest) { r.Owner = fmt.Sprintf("racer-%d", n) }))
				if err != nil {
					f.t.Errorf("fence: %v", err)
					return
				}
				for _, d := range r.Dispatches {
					i := d.Intent
					mu.Lock()
					if i.LanePosition != last[i.Lane]+1 {
						f.t.Errorf("%s: place %d went after place %d", i.Lane, i.LanePosition, last[i.Lane])
					}
					last[i.Lane] = i.LanePosition
					total++
					mu.Unlock()
					if _, err := f.Ledger.Move(f.ctx(), i.Key, ledger.Abandon{Fence: i.Fence(), As: ledger.NeverSent, Reason: "test"}); err != nil {
						f.t.Errorf("abandon: %v", err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	if total != lanes*each {
		f.t.Errorf("%d of %d went", total, lanes*each)
	}
}
