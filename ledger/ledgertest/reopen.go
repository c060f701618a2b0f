package ledgertest

import (
	"strings"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func reopenTopic() topic {
	return topic{"reopen, abandon, cancel, hold", []testCase{
		{name: "no stamp reopens, and a stamp refuses it", run: reopenNoStamp},
		{name: "a typed not sent reopens for its own attempt only", run: reopenNotSent},
		{name: "absent for good reopens only by a probe that began late enough", run: reopenAbsent},
		{name: "absent for good marks dead tokens", run: reopenTokenDead},
		{name: "a replay-safe channel reopens and keeps the doubt", run: reopenReplaySafe},
		{name: "resend needs the policy and keeps the doubt", run: reopenResend},
		{name: "a reopened intent waits as it was told", run: reopenWaits},
		{name: "each kind of end is written as it is", run: abandonKinds},
		{name: "an end as never sent is refused in doubt", run: abandonInDoubt},
		{name: "a cancel ends what was not sent at once", run: cancelUnsent},
		{name: "a cancel during a dispatch is obeyed at the reopen", run: cancelDispatched},
		{name: "a cancelled intent in doubt is handed back for probing, whatever its last attempt proved", run: cancelInDoubt},
		{name: "a held intent keeps its stamp, has a number of its own and is looked at", run: holdKeeps},
	}}
}

func reopenNoStamp(f *fixture) {
	k := f.claim()
	d := f.fenced(k)
	f.move(k, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp, Error: "shutting down"})
	i := f.is(k, ledger.StateIntent)
	if i.FenceNumber <= d.Intent.FenceNumber || i.FenceOwner != "" || !i.FenceExpiresAt.IsZero() || i.LastError != "shutting down" {
		f.t.Errorf("reopened is %+v", i)
	}
	_, err := f.try(k, f.stamp(d.Intent))
	f.wants(err, ledger.ErrFenceLost)
	i = f.stamped(k)
	_, err = f.try(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNoStamp})
	f.refused(err, "reopen-names-no-stamp")
	p := f.probing(k)
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofNoStamp})
	f.refused(err, "reopen-names-no-stamp")
	f.is(k, ledger.StateDispatched)
}

func reopenNotSent(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	i = f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent, Error: "refused"})
	got := f.is(k, ledger.StateIntent)
	if len(got.Doubts) != 1 || got.Doubts[0] != 1 || got.Stamped() || got.Attempts != 2 {
		f.t.Errorf("doubts are %v after the second attempt was not sent, want the first", got.Doubts)
	}
	i = f.stamped(k)
	p := f.probing(k)
	if !p.Stamped() || p.Attempts != 3 || len(p.Doubts) != 1 {
		f.t.Errorf("a probing fence did not keep the stamp: %+v", p)
	}
	_, err := f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofNotSent})
	f.refused(err, "resend-of-stamped")
	_, err = f.try(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent})
	f.wants(err, ledger.ErrFenceLost)
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofPerson})
	f.refused(err, "proof")
}

func reopenAbsent(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	absent := ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: i.SendStartedAt, ClockAllowance: moment}
	_, err := f.try(k, absent)
	f.refused(err, "no-settle-time")
	absent.ProbeBegan = f.now().Add(time.Hour)
	_, err = f.try(k, absent)
	f.refused(err, "no-settle-time")
	absent.ProbeBegan = f.after(p.AbsenceCountsFrom(moment))
	f.move(k, absent)
	if got := f.is(k, ledger.StateIntent); got.InDoubt() {
		f.t.Errorf("absent for good left doubt: %+v", got)
	}

	sheet := exactSheet()
	sheet.SettleTime = channel.Duration(time.Hour)
	f.use(sheet)
	k = f.claim()
	f.stamped(k)
	p = f.probing(k)
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: f.after(p.LastPossibleSend.Add(2 * moment)), ClockAllowance: moment})
	f.refused(err, "no-settle-time")

	f.use(blindSheet())
	k = f.claim()
	f.stamped(k)
	p = f.probing(k)
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: f.after(p.AbsenceCountsFrom(moment)), ClockAllowance: moment})
	f.refused(err, "reopen-on-absent-now")
	f.is(k, ledger.StateDispatched)
}

func reopenTokenDead(f *fixture) {
	k := f.claim()
	f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: f.now(), TokenDead: true})
	_, tokens, err := f.Ledger.Intent(f.ctx(), k)
	f.must(err)
	if len(tokens) != 1 || !tokens[0].Dead {
		f.t.Errorf("tokens are %+v, want dead", tokens)
	}
	d := f.fenced(k)
	if len(d.Tokens) != 1 || !d.Tokens[0].Dead {
		f.t.Errorf("the dispatch brings %+v", d.Tokens)
	}
	f.move(k, ledger.PutToken{Fence: d.Intent.Fence(), Token: newToken(2)})
}

func reopenReplaySafe(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	got := f.is(k, ledger.StateIntent)
	if len(got.Doubts) != 1 || got.Doubts[0] != 1 || got.Stamped() {
		f.t.Errorf("after a replay-safe reopen the doubts are %v", got.Doubts)
	}
	if n := f.queryInt("SELECT count(*) FROM effect_intents" + where(k) + " AND may_have_taken_effect"); n != 1 {
		f.t.Error("may_have_taken_effect does not tell of the doubt")
	}
	f.use(exactSheet())
	k = f.claim()
	f.stamped(k)
	p = f.probing(k)
	_, err := f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	f.refused(err, "token-life")
}

func reopenResend(f *fixture) {
	f.use(blindSheet())
	k := f.claim()
	f.stamped(k)
	p := f.probing(k)
	_, err := f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofResend})
	f.refused(err, "resend-of-stamped")
	f.move(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofResend, Policy: true})
	if got := f.is(k, ledger.StateIntent); !got.InDoubt() {
		f.t.Error("a resend forgot the doubt")
	}
}

func reopenWaits(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent, After: time.Hour})
	r := f.fence(1)
	if len(r.Dispatches) != 0 || r.NextDue < 59*time.Minute {
		f.t.Errorf("an intent that waits an hour gave %d dispatches, next due %s", len(r.Dispatches), r.NextDue)
	}
}

func abandonKinds(f *fixture) {
	for as, m := range map[ledger.AbandonedAs]ledger.Abandon{
		ledger.NeverSent:     {Reason: "payload is not valid"},
		ledger.Refused:       {Reason: "550 no such user", NotSent: true},
		ledger.FailedOutside: {Reason: "reverted", Evidence: channel.Evidence{ID: "tx-1"}},
		ledger.Unknown:       {Reason: "policy", Policy: true},
	} {
		k := f.claim()
		i := f.fenced(k).Intent
		if as != ledger.NeverSent {
			i = f.move(k, f.stamp(i)).Intent
		}
		m.As, m.Fence = as, i.Fence()
		f.move(k, m)
		f.move(k, m) // again: done already
		got := f.is(k, ledger.StateAbandoned)
		if got.AbandonedAs != as || got.AbandonReason != m.Reason || got.CommittedAt.IsZero() || ledger.EvidenceID(got.Evidence) != m.Evidence.ID {
			f.t.Errorf("%s ended as %+v", as, got)
		}
		if rs := f.receipts(k); len(rs) != 1 || rs[0].Outcome != "abandoned" {
			f.t.Errorf("%s has receipts %+v", as, rs)
		}
		if n := f.queueRows(k); n != 0 {
			f.t.Errorf("%s: %d queue rows of an ended intent", as, n)
		}
		_, err := f.try(k, ledger.RequestCancel{By: "ann"})
		f.wants(err, ledger.ErrTerminal)
	}
}

func abandonInDoubt(f *fixture) {
	k := f.claim()
	f.stamped(k)
	p := f.probing(k)
	for _, m := range []ledger.Abandon{{As: ledger.NeverSent}, {As: ledger.Refused, NotSent: true}} {
		m.Fence = p.Fence()
		_, err := f.try(k, m)
		f.refused(err, "cancel-despite-doubt")
	}
	_, err := f.try(k, ledger.Abandon{Fence: p.Fence(), As: ledger.Unknown})
	f.refused(err, "policy")
	f.is(k, ledger.StateDispatched)
	f.move(k, ledger.Abandon{Fence: p.Fence(), As: ledger.Unknown, Policy: true, Reason: "policy"})
	if got := f.is(k, ledger.StateAbandoned); got.Outcome() != "unknown, do not retry" {
		f.t.Errorf("the outcome reads %q", got.Outcome())
	}
}

func cancelUnsent(f *fixture) {
	k := f.claim()
	_, err := f.try(k, ledger.RequestCancel{})
	f.refused(err, "person")
	f.move(k, ledger.RequestCancel{By: "ann", Reason: "wrong address"})
	got := f.is(k, ledger.StateAbandoned)
	if got.AbandonedAs != ledger.NeverSent || !strings.Contains(got.AbandonReason, "ann") || !strings.Contains(got.AbandonReason, "wrong address") {
		f.t.Errorf("cancelled is %+v", got)
	}
	if n := len(f.fence(5).Dispatches); n != 0 {
		f.t.Errorf("a cancelled intent was dispatched")
	}
}

func cancelDispatched(f *fixture) {
	k := f.claim()
	d := f.fenced(k)
	f.move(k, ledger.RequestCancel{By: "ann", Reason: "stop"})
	f.move(k, ledger.RequestCancel{By: "bob", Reason: "stop too"})
	got := f.is(k, ledger.StateDispatched)
	if got.CancelRequestedAt.IsZero() || !strings.Contains(got.CancelReason, "ann") {
		f.t.Errorf("the cancel was not kept: %+v", got)
	}
	_, err := f.try(k, f.stamp(d.Intent))
	f.refused(err, "cancelled")
	f.move(k, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
	if got := f.is(k, ledger.StateAbandoned); got.AbandonedAs != ledger.NeverSent {
		f.t.Errorf("it ended as %s", got.AbandonedAs)
	}
	k = f.claim()
	i := f.stamped(k)
	f.move(k, ledger.RequestCancel{By: "ann"})
	f.move(k, sentAs(i, "it was sent all the same"))
	f.is(k, ledger.StateCommitted)
}

func cancelInDoubt(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	i = f.stamped(k)
	f.move(k, ledger.RequestCancel{By: "ann"})
	r := f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofNotSent})
	got := f.is(k, ledger.StateDispatched)
	if r.Applied || got.Stamped() || got.FenceOwner != "" || len(got.Doubts) != 1 || got.Doubts[0] != 1 {
		f.t.Errorf("a cancelled intent whose second attempt was not sent is %+v", got)
	}
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 {
		f.t.Errorf("it is not looked at: %v", looks)
	}
	p := f.move(k, probeFence()).Intent
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	f.refused(err, "cancel-despite-doubt")
	f.move(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "found"}, Established: ledger.ByProbe})
}

func holdKeeps(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	p := f.probing(k)
	f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "nobody to ask", Look: 0})
	got := f.is(k, ledger.StateDispatched)
	if !got.Held() || got.HoldReason != "nobody to ask" || got.FenceNumber <= p.FenceNumber || got.FenceOwner != "" ||
		!got.SendStartedAt.Equal(i.SendStartedAt) || !got.LastPossibleSend.Equal(i.LastPossibleSend) {
		f.t.Errorf("held is %+v", got)
	}
	if rs := f.receipts(k); len(rs) != 1 || rs[0].Outcome != "held" {
		f.t.Errorf("receipts of a held intent are %+v", rs)
	}
	_, err := f.try(k, ledger.Commit{Fence: got.Fence(), Evidence: channel.Evidence{ID: "x"}, Established: ledger.ByProbe})
	f.wants(err, ledger.ErrFenceLost)
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 || looks[0] != k {
		f.t.Errorf("a held intent is not looked at: %v", looks)
	}
	p = f.move(k, probeFence()).Intent
	f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "still nobody", Look: time.Hour})
	if again := f.read(k); !again.HeldAt.Equal(got.HeldAt) {
		f.t.Error("a second hold forgot since when it is held")
	}
	p = f.move(k, probeFence()).Intent
	f.move(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "found"}, Established: ledger.ByProbe})
	if got := f.is(k, ledger.StateCommitted); got.Held() {
		f.t.Error("a committed intent is still held")
	}
}
