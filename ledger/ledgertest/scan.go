package ledgertest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
)

func scanTopic() topic {
	return topic{"scan", []testCase{
		{name: "mends a queue that was emptied by hand, and nothing is lost", run: scanRestores},
		{name: "goes page by page over every row, and ends", run: scanPages},
		{name: "takes away queue rows of what has ended", run: scanCleans},
		{name: "is not stopped by a poison row", run: scanPoison},
		{name: "leaves a good queue alone", run: scanQuiet},
	}}
}

// scanAll scans the whole table and returns how much was seen and mended.
func (f *fixture) scanAll(page int) (seen, repaired, pages int) {
	f.t.Helper()
	var after ledger.Key
	for {
		r, err := f.Ledger.Scan(f.ctx(), after, page)
		f.must(err)
		seen, repaired, pages = seen+r.Seen, repaired+r.Repaired, pages+1
		if r.Done {
			return seen, repaired, pages
		}
		if r.Next == after || pages > 10_000 {
			f.t.Fatalf("the scan does not get on: after %v comes %v", after, r.Next)
		}
		after = r.Next
	}
}

func scanRestores(f *fixture) {
	waiting, laned, second := f.claim(), f.claim(inLane("a-"+f.run)), f.claim(inLane("a-"+f.run))
	later := f.claim(func(c *ledger.Claim) { c.DueAt = f.now().Add(time.Hour) })
	held, sent, done, unanswered := f.claim(), f.claim(), f.claim(), f.claim()
	i := f.stamped(held)
	f.move(held, ledger.Hold{Fence: i.Fence(), Reason: "look", Look: 0})
	sentAt := f.stamped(sent)
	f.committed(done)
	f.move(unanswered, ledger.Ambiguous{Fence: f.stamped(unanswered).Fence(), Look: 0})
	f.must(f.Exec(f.ctx(), "DELETE FROM dispatch_queue"))
	if r := f.fence(10); len(r.Dispatches) != 0 {
		f.t.Fatalf("an empty queue gave %d dispatches", len(r.Dispatches))
	}
	f.scanAll(3)
	for k, want := range map[ledger.Key]int64{waiting: 1, laned: 1, second: 1, later: 1, held: 1, sent: 1, unanswered: 1, done: 0} {
		if n := f.queueRows(k); n != want {
			f.t.Errorf("%s has %d queue rows after the scan, want %d", k.EffectKey, n, want)
		}
	}
	got := map[ledger.Key]bool{}
	for _, d := range f.fence(10).Dispatches {
		got[d.Intent.Key] = true
	}
	if len(got) != 2 || !got[waiting] || !got[laned] {
		f.t.Errorf("after the scan %v were dispatched, want the waiting one and the lane's head", got)
	}
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 10)
	f.must(err)
	if len(looks) != 2 {
		f.t.Errorf("after the scan the looks are %v, want the held and the unanswered one", looks)
	}
	f.move(sent, sentAs(sentAt, uuid.NewString()))
	f.move(laned, ledger.Abandon{Fence: f.read(laned).Fence(), As: ledger.NeverSent, Reason: "test"})
	if r := f.fence(10); len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != second {
		f.t.Errorf("after its head ended the lane gave %d dispatches", len(r.Dispatches))
	}
}

func scanPages(f *fixture) {
	for range 25 {
		f.claim()
	}
	total := f.queryInt("SELECT count(*) FROM effect_intents")
	for _, page := range []int{1, 7, 1000} {
		seen, _, pages := f.scanAll(page)
		if int64(seen) != total {
			f.t.Errorf("pages of %d saw %d of %d rows", page, seen, total)
		}
		if want := int(total)/page + 2; pages > want {
			f.t.Errorf("pages of %d took %d pages for %d rows", page, pages, total)
		}
	}
}

func scanCleans(f *fixture) {
	k := f.claim()
	live := f.claim()
	d := f.fenced(k)
	f.move(k, ledger.Abandon{Fence: d.Intent.Fence(), As: ledger.NeverSent, Reason: "test"})
	if n := f.queueRows(k); n != 0 {
		f.t.Errorf("an ended intent has %d queue rows", n)
	}
	f.must(f.Exec(f.ctx(), fmt.Sprintf("UPDATE dispatch_queue SET run_id = %s, effect_key = %s", quote(k.RunID), quote(k.EffectKey))+where(live)))
	for range 2 { // the scan may leave a stray row to the fence that comes upon it
		f.scanAll(100)
		for _, d := range f.fence(10).Dispatches {
			if d.Intent.Key == k {
				f.t.Error("an ended intent was dispatched")
			}
		}
	}
	f.is(live, ledger.StateDispatched)
	if n := f.queueRows(k); n != 0 {
		f.t.Errorf("an ended intent has %d queue rows", n)
	}
}

func scanPoison(f *fixture) {
	// What plain SQL may leave behind: a payload that is no JSON, a channel that nobody knows, a wrong digest.
	digest := "0000000000000000000000000000000000000000000000000000000000000000"
	var keys []ledger.Key
	for n, c := range []struct{ channel, payload string }{{f.channel, "{not json"}, {"mail/nobody-" + f.run[:8], "{}"}, {f.channel, "[]"}} {
		k := ledger.Key{RunID: newRunID(), EffectKey: fmt.Sprintf("mail:poison-%d-%s", n, f.run)}
		f.must(f.Exec(f.ctx(), fmt.Sprintf(
			"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind) VALUES (%s, %s, %s, %s, %s, 'mail')",
			quote(k.RunID), quote(k.EffectKey), quote(c.channel), quote(c.payload), quote(digest))))
		keys = append(keys, k)
	}
	good := f.claim()
	f.must(f.Exec(f.ctx(), "DELETE FROM dispatch_queue"))
	f.scanAll(2)
	for _, k := range append(keys, good) {
		if n := f.queueRows(k); n != 1 {
			f.t.Errorf("%s has %d queue rows", k.EffectKey, n)
		}
	}
	found := false
	for _, d := range f.fence(10).Dispatches {
		found = found || d.Intent.Key == good
	}
	if !found {
		f.t.Error("a good intent beside poison rows was not dispatched")
	}
}

func scanQuiet(f *fixture) {
	k := f.claim()
	f.claim(inLane("b-" + f.run))
	f.committed(f.claim())
	f.scanAll(100)
	if _, repaired, _ := f.scanAll(100); repaired != 0 {
		f.t.Errorf("a second scan mended %d rows of a good queue", repaired)
	}
	f.fenced(k)
	if _, repaired, _ := f.scanAll(100); repaired != 0 {
		f.t.Errorf("a scan beside a live dispatch mended %d", repaired)
	}
}
