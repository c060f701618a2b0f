package ledgertest

import (
	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func epochTopic() topic {
	return topic{"a restored ledger", []testCase{
		{name: "an intent that may have been sent before is probed before it is sent", run: restoredProbes},
		{name: "a cancel does not call it never sent", run: restoredCancel},
		{name: "fences and leases of the old epoch never match, and their evidence lands", run: newEpoch},
		{name: "a new epoch is opened by a person, on the epoch that was shown", run: epochOpens},
		{name: "of several openings at once one is made", run: epochOpensOnce},
		{name: "what has not ended is marked, what has ended is not", run: epochMarks},
		{name: "a stamp under the old epoch is refused", run: epochStamp},
		{name: "new claims are probed first until the horizon", run: epochHorizon},
		{name: "a claim that commits beside the opening is probed first", run: epochBeside, needsWriters: true},
		{name: "an absence counts after the fences of the life before, and then it is sent", run: epochAbsence},
		{name: "a token that may have been lost is never replaced", run: epochToken},
		{name: "what was recorded before is finished after it", run: epochFinish},
		{name: "no SQL forgets that an earlier life may have sent it", run: epochSQL},
		{name: "epochs are numbered, and never changed", run: epochRows},
	}}
}

// restored marks the row as one that an earlier life of the ledger may have sent.
func (f *fixture) restored(k ledger.Key) { f.update(k, "probe_first = TRUE") }

func restoredProbes(f *fixture) {
	k := f.claim()
	f.restored(k)
	r := f.fence(1)
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 || !r.Settled[0].Probing {
		f.t.Fatalf("a restored intent gave %d dispatches, settled %+v", len(r.Dispatches), r.Settled)
	}
	i := f.is(k, ledger.StateDispatched)
	if i.Starts != 0 || !i.ProbeFirst || !i.InDoubt() {
		f.t.Errorf("it is %+v, want no start counted and the doubt kept", i)
	}
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 {
		f.t.Errorf("it is not looked at: %v", looks)
	}
	p := f.move(k, probeFence()).Intent
	_, err = f.try(k, ledger.Abandon{Fence: p.Fence(), As: ledger.NeverSent})
	f.refused(err, "cancel-despite-doubt")
	f.move(k, ledger.Resolve{Fence: p.Fence(), As: ledger.DecideRetry, By: "Ann", Reason: "not in the mailbox"})
	f.committed(k)
}

func restoredCancel(f *fixture) {
	k := f.claim()
	f.restored(k)
	f.move(k, ledger.RequestCancel{By: "ann"})
	f.is(k, ledger.StateIntent)
	f.fence(1)
	f.is(k, ledger.StateDispatched)
	p := f.move(k, probeFence()).Intent
	f.move(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "found"}, Established: ledger.ByProbe})
}

func newEpoch(f *fixture) {
	sent, unsent := f.claim(), f.use(replaySheet()).claim()
	i := f.stamped(sent)
	j := f.stamped(unsent)
	_, l := f.leased("worker-1")
	before, err := f.Ledger.Epoch(f.ctx())
	f.must(err)
	f.openEpoch(0, 0)
	fresh := f.Reopen(f.t, &Signer{})
	epoch, err := fresh.Epoch(f.ctx())
	f.must(err)
	if epoch != before+1 || fresh.ID() != f.Ledger.ID() {
		f.t.Errorf("after a new epoch it is %d, was %d", epoch, before)
	}
	m := sentAs(i, uuid.NewString())
	for _, l2 := range []ledger.Ledger{fresh, f.Ledger} { // also the process that lived through it
		_, err = l2.Move(f.ctx(), sent, m)
		f.wants(err, ledger.ErrFenceLost)
		f.wants(l2.VerifyLease(f.ctx(), l), fence.ErrLost)
		_, err = l2.Renew(f.ctx(), l, longEnough)
		f.wants(err, fence.ErrLost)
	}
	_, err = fresh.Move(f.ctx(), sent, lateSent(sent, i, m.Evidence.ID))
	f.must(err)
	_, err = fresh.Move(f.ctx(), sent, ledger.RequestCancel{By: "ann"})
	f.must(err)
	if got := f.is(sent, ledger.StateCommitted); got.LedgerEpoch != epoch || got.FenceNumber <= i.FenceNumber {
		f.t.Errorf("committed under %s", got.Fence())
	}
	// What another epoch says of its first attempt says nothing of ours.
	_, err = fresh.Move(f.ctx(), unsent, ledger.Late{Key: unsent, Fence: j.Fence(), Attempt: 1, Outcome: ledger.LateNotSent})
	f.must(err)
	_, err = fresh.Move(f.ctx(), unsent, ledger.RequestCancel{By: "ann"})
	f.must(err)
	if got := f.is(unsent, ledger.StateDispatched); !got.InDoubt() {
		f.t.Error("not sent of another epoch cleared a doubt")
	}
}
