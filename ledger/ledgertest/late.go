package ledgertest

import (
	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func lateTopic() topic {
	return topic{"late evidence", []testCase{
		{name: "commits a dispatched row at the next move, whoever makes it", run: lateDispatched},
		{name: "commits a waiting row in the fence", run: lateAtFence},
		{name: "commits at the stamp", run: lateAtStamp},
		{name: "fills a terminal row once, with an alarm and a receipt", run: lateTerminal},
		{name: "of a row that is missing is kept", run: lateMissing},
		{name: "not sent clears the doubt of its own attempt only", run: lateNotSent},
		{name: "of the commit that had worked is no news", run: lateOwnCommit},
	}}
}

func lateSent(k ledger.Key, i ledger.Intent, id string) ledger.Late {
	return ledger.Late{Key: k, Fence: i.Fence(), Attempt: i.Attempts, Outcome: ledger.LateSent, Evidence: channel.Evidence{ID: id}, Reason: "answered late"}
}

func lateDispatched(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "look", Look: longEnough})
	id := uuid.NewString()
	f.move(k, lateSent(k, i, id))
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 {
		f.t.Errorf("late evidence is not before the reconciler: %v", looks)
	}
	r := f.move(k, ledger.ProbeFence{Owner: "ann", TTL: longEnough, Person: true})
	if r.Applied || r.Intent.State != ledger.StateCommitted {
		f.t.Errorf("a person's look at a row with late evidence gave %+v", r)
	}
	got := f.is(k, ledger.StateCommitted)
	if ledger.EvidenceID(got.Evidence) != id || got.Established != ledger.ByLate || got.Held() {
		f.t.Errorf("committed is %+v", got)
	}
	late, err := f.Ledger.LateEvidence(f.ctx(), k)
	f.must(err)
	if len(late) != 1 || late[0].Fence != i.Fence() || late[0].Attempt != 1 || late[0].Outcome != ledger.LateSent || late[0].Reason != "answered late" || late[0].At.IsZero() {
		f.t.Errorf("late evidence is %+v", late)
	}
}

func lateAtFence(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe, After: longEnough})
	f.move(k, lateSent(k, i, uuid.NewString()))
	r := f.fence(1)
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 || r.Settled[0].State != ledger.StateCommitted {
		f.t.Errorf("the fence of a row with late evidence gave %d dispatches, settled %+v", len(r.Dispatches), r.Settled)
	}
	f.is(k, ledger.StateCommitted)
}

func lateAtStamp(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	d := f.fenced(k)
	f.move(k, lateSent(k, i, uuid.NewString()))
	m := f.stamp(d.Intent)
	m.Token = nil
	if r := f.move(k, m); r.Applied || r.Intent.State != ledger.StateCommitted {
		f.t.Errorf("the stamp of a row with late evidence gave %+v", r)
	}
	if got := f.is(k, ledger.StateCommitted); got.Attempts != 1 {
		f.t.Errorf("it was stamped all the same: %d attempts", got.Attempts)
	}
}

func lateTerminal(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Abandon{Fence: p.Fence(), As: ledger.Unknown, Policy: true, Reason: "policy"})
	before := f.read(k)
	r := f.move(k, lateSent(k, i, "late-1"))
	if r.Alarm == "" {
		f.t.Error("evidence for a terminal row raised no alarm")
	}
	f.move(k, lateSent(k, i, "late-2"))
	got := f.is(k, ledger.StateAbandoned)
	if ledger.EvidenceID(got.LateEvidence) != "late-1" || got.Outcome() != "abandoned, took effect later" || got.FenceNumber != before.FenceNumber {
		f.t.Errorf("after late evidence: %q, %s", got.Outcome(), got.LateEvidence)
	}
	late, err := f.Ledger.LateEvidence(f.ctx(), k)
	f.must(err)
	if len(late) != 2 {
		f.t.Errorf("%d pieces are kept, want both", len(late))
	}
	if rs := f.receipts(k); len(rs) != 2 || rs[1].Outcome != "late" {
		f.t.Errorf("receipts are %+v", rs)
	}
}

func lateMissing(f *fixture) {
	k := ledger.Key{RunID: newRunID(), EffectKey: "mail:lost"}
	r := f.move(k, ledger.Late{Key: k, Fence: fence.Fence{Epoch: 1, Number: 3, Owner: "old"}, Attempt: 2, Outcome: ledger.LateSent, Evidence: channel.Evidence{ID: "m-9"}})
	if r.Alarm == "" {
		f.t.Error("evidence for a missing row raised no alarm")
	}
	late, err := f.Ledger.LateEvidence(f.ctx(), k)
	f.must(err)
	if len(late) != 1 || ledger.EvidenceID(late[0].Evidence) != "m-9" {
		f.t.Errorf("kept is %+v", late)
	}
	if log := f.outcomes(k); log != "late" {
		f.t.Errorf("log is %q", log)
	}
	f.claim(func(c *ledger.Claim) { c.RunID, c.EffectKey = k.RunID, k.EffectKey }) // claimed again after the loss
	f.fence(1)
	f.is(k, ledger.StateCommitted)
}

func lateNotSent(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	var fences []ledger.Intent
	for range 3 {
		i := f.stamped(k)
		fences = append(fences, i)
		p := f.probing(k)
		f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	}
	f.move(k, ledger.Late{Key: k, Fence: fences[1].Fence(), Attempt: 2, Outcome: ledger.LateNotSent})
	f.move(k, ledger.RequestCancel{By: "ann"})
	got := f.is(k, ledger.StateIntent)
	if len(got.Doubts) != 2 || got.Doubts[0] != 1 || got.Doubts[1] != 3 {
		f.t.Errorf("doubts are %v, want the first and third attempt", got.Doubts)
	}
	if n := f.queueRows(k); n != 1 {
		f.t.Errorf("%d queue rows of a live intent", n)
	}
	f.move(k, ledger.Late{Key: k, Fence: fences[0].Fence(), Attempt: 1, Outcome: ledger.LateNotSent})
	f.move(k, ledger.Late{Key: k, Fence: fences[2].Fence(), Attempt: 3, Outcome: ledger.LateNotSent})
	if r := f.fence(1); len(r.Settled) != 1 {
		f.t.Errorf("the fence settled %d", len(r.Settled))
	}
	if got := f.is(k, ledger.StateAbandoned); got.AbandonedAs != ledger.NeverSent {
		f.t.Errorf("all attempts were proven not sent, and it ended as %s", got.AbandonedAs)
	}
}

func lateOwnCommit(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, sentAs(i, "m-1"))
	r := f.move(k, lateSent(k, i, "m-1"))
	if got := f.is(k, ledger.StateCommitted); r.Alarm != "" || len(got.LateEvidence) != 0 {
		f.t.Errorf("our own evidence came as news: %q, %s", r.Alarm, got.LateEvidence)
	}
}
