package ledgertest

import (
	"time"

	"github.com/pawlworks/pawl/ledger"
)

func readerTopic() topic {
	return topic{"reader", []testCase{
		{name: "filters by run, channel, state and hold", run: readerFilters},
		{name: "pages without gaps or repeats, newest first", run: readerPages},
		{name: "says when there is no such intent", run: readerMissing},
		{name: "tells the log in order, with details", run: readerLog},
		{name: "counts what is where", run: readerStats},
		{name: "counts what has not ended by channel", run: readerChannelStats},
		{name: "has an id, an epoch and a clock", run: readerSelf},
	}}
}

func readerFilters(f *fixture) {
	waiting, done, held := f.claim(), f.claim(), f.claim()
	f.committed(done)
	f.move(held, ledger.Hold{Fence: f.stamped(held).Fence(), Reason: "look", Look: time.Hour})
	run := newRunID()
	other := f.claim(func(c *ledger.Claim) { c.RunID = run })
	for name, c := range map[string]struct {
		filter ledger.Filter
		want   []ledger.Key
	}{
		"channel":     {ledger.Filter{Channel: f.channel}, []ledger.Key{other, held, done, waiting}},
		"run":         {ledger.Filter{RunID: run}, []ledger.Key{other}},
		"state":       {ledger.Filter{Channel: f.channel, State: ledger.StateCommitted}, []ledger.Key{done}},
		"held":        {ledger.Filter{Channel: f.channel, Held: true}, []ledger.Key{held}},
		"nothing":     {ledger.Filter{Channel: "mail/nowhere"}, nil},
		"run, state":  {ledger.Filter{RunID: run, State: ledger.StateIntent}, []ledger.Key{other}},
		"other state": {ledger.Filter{RunID: run, State: ledger.StateAbandoned}, nil},
	} {
		rows, next, err := f.Ledger.Intents(f.ctx(), c.filter)
		f.must(err)
		var got []ledger.Key
		for _, i := range rows {
			got = append(got, i.Key)
		}
		if len(got) != len(c.want) {
			f.t.Errorf("%s: got %v, want %v", name, got, c.want)
			continue
		}
		for n := range got {
			if got[n] != c.want[n] {
				f.t.Errorf("%s: number %d is %s, want %s (newest claim first)", name, n, got[n].EffectKey, c.want[n].EffectKey)
			}
		}
		if next != "" {
			f.t.Errorf("%s: a last page has a cursor", name)
		}
	}
}

func readerPages(f *fixture) {
	const total = 13
	want := map[ledger.Key]bool{}
	var claims []ledger.Claim
	for range total {
		claims = append(claims, f.newClaim()) // one transaction: the same time for all, perhaps
	}
	for _, k := range f.claimAll(claims...) {
		want[k] = true
	}
	for _, limit := range []int{1, 4, 13, 100} {
		seen := map[ledger.Key]bool{}
		filter := ledger.Filter{Channel: f.channel, Limit: limit}
		var last time.Time
		for pages := 0; ; pages++ {
			rows, next, err := f.Ledger.Intents(f.ctx(), filter)
			f.must(err)
			if len(rows) > limit || pages > total+1 {
				f.t.Fatalf("page %d of %d has %d rows", pages, limit, len(rows))
			}
			for _, i := range rows {
				if seen[i.Key] || !want[i.Key] || (!last.IsZero() && i.CreatedAt.After(last)) {
					f.t.Errorf("pages of %d: %s comes twice, or out of order", limit, i.Key)
				}
				seen[i.Key], last = true, i.CreatedAt
			}
			if next == "" {
				break
			}
			filter.After = next
		}
		if len(seen) != total {
			f.t.Errorf("pages of %d showed %d of %d", limit, len(seen), total)
		}
	}
	if _, _, err := f.Ledger.Intents(f.ctx(), ledger.Filter{After: "no such cursor"}); err == nil {
		f.t.Error("a cursor that nobody gave was taken")
	}
	many := make([]ledger.Claim, 120)
	for n := range many {
		many[n] = f.newClaim()
	}
	f.claimAll(many...)
	if rows, _, err := f.Ledger.Intents(f.ctx(), ledger.Filter{Channel: f.channel}); err != nil || len(rows) != 100 {
		f.t.Errorf("without a limit a page has %d rows, %v", len(rows), err)
	}
}

func readerMissing(f *fixture) {
	k := ledger.Key{RunID: newRunID(), EffectKey: "mail:none"}
	_, _, err := f.Ledger.Intent(f.ctx(), k)
	f.wants(err, ledger.ErrNoIntent)
	_, err = f.try(k, ledger.RequestCancel{By: "ann"})
	f.wants(err, ledger.ErrNoIntent)
	if log, err := f.Ledger.Log(f.ctx(), k); err != nil || len(log) != 0 {
		f.t.Errorf("the log of nothing: %v, %v", log, err)
	}
	if rs, err := f.Ledger.ReceiptsOf(f.ctx(), k); err != nil || len(rs) != 0 {
		f.t.Errorf("the receipts of nothing: %v, %v", rs, err)
	}
	// What is no UUID is no intent either: a mistyped address is not a failure of the database.
	_, _, err = f.Ledger.Intent(f.ctx(), ledger.Key{RunID: "not a uuid", EffectKey: "mail:none"})
	f.wants(err, ledger.ErrNoIntent)
}

func readerLog(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent, Error: "connection refused"})
	f.move(k, ledger.RequestCancel{By: "Ann", Reason: "enough"})
	log, err := f.Ledger.Log(f.ctx(), k)
	f.must(err)
	if len(log) != 3 || log[0].Outcome != ledger.LogFenced || log[1].Outcome != ledger.LogNotSent || log[2].Outcome != ledger.LogAbandoned {
		f.t.Fatalf("log is %+v", log)
	}
	seen := map[string]bool{}
	for n, e := range log {
		if e.ID == "" || seen[e.ID] || e.Key != k || e.At.IsZero() || (n > 0 && e.At.Before(log[n-1].At)) {
			f.t.Errorf("entry %d is %+v", n, e)
		}
		seen[e.ID] = true
	}
	if !sameJSON(log[1].Detail, []byte(`{"fence":"`+i.Fence().String()+`","proof":"not_sent","reason":"connection refused"}`)) {
		f.t.Errorf("detail is %s", log[1].Detail)
	}
	if log[1].Attempt != 1 || log[0].Attempt != 0 {
		f.t.Errorf("attempts are %d and %d", log[0].Attempt, log[1].Attempt)
	}
}

func readerStats(f *fixture) {
	before, err := f.Ledger.Stats(f.ctx())
	f.must(err)
	f.claim()
	f.stamped(f.claim())
	held := f.claim()
	f.move(held, ledger.Hold{Fence: f.stamped(held).Fence(), Reason: "look", Look: time.Hour})
	accepted := f.claim()
	f.move(accepted, ledger.Accept{Fence: f.stamped(accepted).Fence(), LookAgain: time.Hour})
	f.committed(f.claim())
	f.committed(f.claim())
	f.move(f.claim(), ledger.RequestCancel{By: "ann"})
	after, err := f.Ledger.Stats(f.ctx())
	f.must(err)
	for name, c := range map[string][2]int{
		"waiting": {after.Waiting - before.Waiting, 1}, "dispatched": {after.Dispatched - before.Dispatched, 1}, "held": {after.Held - before.Held, 1},
		"accepted": {after.Accepted - before.Accepted, 1}, "committed": {after.Committed - before.Committed, 2}, "abandoned": {after.Abandoned - before.Abandoned, 1},
	} {
		if c[0] != c[1] {
			f.t.Errorf("stats count %d more as %s, want %d", c[0], name, c[1])
		}
	}
	if after.OldestWaiting <= 0 || after.OldestUnknown <= 0 {
		f.t.Errorf("the oldest wait %s and %s", after.OldestWaiting, after.OldestUnknown)
	}
}

func readerChannelStats(f *fixture) {
	quiet, ended := f.addChannel(exactSheet()), f.use(exactSheet()).channel
	f.committed(f.claim())
	busy := f.use(exactSheet()).channel
	f.claim()
	f.claim(func(c *ledger.Claim) { c.DueAt = f.now().Add(-time.Hour) })
	f.stamped(f.claim())
	accepted := f.claim()
	f.move(accepted, ledger.Accept{Fence: f.stamped(accepted).Fence(), LookAgain: time.Hour})
	other := f.use(exactSheet()).channel
	for range 3 {
		held := f.claim()
		f.move(held, ledger.Hold{Fence: f.stamped(held).Fence(), Reason: "look", Look: time.Hour})
	}
	st, err := f.Ledger.Stats(f.ctx())
	f.must(err)
	a, b := st.Channels[busy], st.Channels[other]
	if a.Waiting != 2 || a.Dispatched != 1 || a.Accepted != 1 || a.Held != 0 || a.OldestWaiting < time.Hour || a.OldestWaiting > 2*time.Hour || a.OldestUnknown != 0 ||
		a.OldestUnresolved <= 0 || a.OldestUnresolved > time.Minute {
		f.t.Errorf("the busy channel is counted as %+v", a)
	}
	if b.Waiting != 0 || b.Dispatched != 0 || b.Accepted != 0 || b.Held != 3 || b.OldestWaiting != 0 || b.OldestUnknown <= 0 || b.OldestUnresolved != 0 {
		f.t.Errorf("the channel with holds is counted as %+v", b)
	}
	for _, name := range []string{quiet, ended} {
		if c, there := st.Channels[name]; there {
			f.t.Errorf("a channel where all has ended is counted as %+v", c)
		}
	}
	var sum ledger.Stats
	for name, c := range st.Channels {
		sum.Add(name, c)
	}
	if sum.Waiting != st.Waiting || sum.Dispatched != st.Dispatched || sum.Accepted != st.Accepted || sum.Held != st.Held ||
		sum.OldestWaiting != st.OldestWaiting || sum.OldestUnknown != st.OldestUnknown || sum.OldestUnresolved != st.OldestUnresolved {
		f.t.Errorf("the channels add up to %+v, the whole is %+v", sum, st)
	}
}

func readerSelf(f *fixture) {
	if len(f.Ledger.ID()) != 36 {
		f.t.Errorf("the ledger's id is %q", f.Ledger.ID())
	}
	if other := f.Reopen(f.t, nil); other.ID() != f.Ledger.ID() {
		f.t.Errorf("another process sees id %q, not %q", other.ID(), f.Ledger.ID())
	}
	if epoch, err := f.Ledger.Epoch(f.ctx()); err != nil || epoch < 1 {
		f.t.Errorf("epoch %d, %v", epoch, err)
	}
	a, b := f.now(), f.now()
	if b.Before(a) || a.IsZero() {
		f.t.Errorf("the clock says %s, then %s", a, b)
	}
}
