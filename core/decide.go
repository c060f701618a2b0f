package core

import (
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// look is what a reconciler knows of a row that it holds by a probing fence.
type look struct {
	row            ledger.Intent
	now            time.Time // the database's clock, read before any probe began
	policy         Policy
	sheet          channel.Sheet
	clockAllowance time.Duration
	found          *channel.Finding // nil: not probed yet
	tokens         int              // how many versions are stored
	firstPossible  time.Time        // what a probe must look back to where the row was never stamped
	// stopped says that the ledger refused to let it go again: it was cancelled, with its run perhaps, or lost its approval.
	stopped bool
	// spent says that the ledger refused a replay: the token's life is over, or too near its end.
	spent bool
}

// mustStop reports whether nobody wants the effect any more, as far as the row says, or the ledger said.
func (l look) mustStop() bool {
	i := l.row
	return l.stopped || !i.CancelRequestedAt.IsZero() || (!i.ExpiresAt.IsZero() && !l.now.Before(i.ExpiresAt))
}

// step is what a reconciler does next.
type step struct {
	probe bool        // ask the channel, then decide again
	move  ledger.Move // else write this
	event string
}

// decide is the reconciler's whole judgement, a pure function. The ledger checks each proof again.
func (l look) decide() step {
	if l.found == nil {
		return l.before()
	}
	return l.after(*l.found)
}

// before decides what needs no probe.
func (l look) before() step {
	i := l.row
	f := i.Fence()
	switch {
	case !i.InDoubt() && i.Held() && !l.mustStop():
		// Quarantined before anything was sent: a person sets it going again; there is nothing to ask the outside system.
		return step{move: ledger.Hold{Fence: f, Reason: i.HoldReason, Look: l.policy.HeldMax}, event: EventHeld}
	case !i.InDoubt(): // and where nobody wants it any more, the ledger ends it as never sent
		return step{move: ledger.Reopen{Fence: f, Proof: ledger.ProofNoStamp, Error: "the sender died before it sent anything"}, event: EventReopened}
	case l.replaySafe() && !i.Held():
		return step{move: ledger.Reopen{Fence: f, Proof: ledger.ProofReplaySafe, Margin: l.policy.Margin, Error: "the same bytes go again"}, event: EventReopened}
	case l.sheet.Probe == channel.ProbeNone:
		if i.Accepted() && !l.pastFinal() {
			return step{move: ledger.Probed{Fence: f, Finding: channel.FindingUnknown, ProbeBegan: l.now, Look: l.wait(), Reason: "the channel cannot be asked"}, event: EventProbed}
		}
		return l.unresolved("the channel cannot be asked what became of it")
	}
	return step{probe: true}
}

// after decides on a finding.
func (l look) after(f channel.Finding) step {
	own := l.row.Fence()
	switch f.Kind {
	case channel.FindingSent:
		if l.sheet.Probe == channel.ProbeExact && f.Match == channel.MatchExact || l.policy.AcceptHeuristic {
			return step{move: ledger.Commit{Fence: own, Evidence: f.Evidence, Established: ledger.ByProbe, Detail: f.Reason}, event: EventSent}
		}
		return l.hold("a heuristic probe says that it was sent; look, and resolve it: " + f.Reason)
	case channel.FindingAccepted:
		if !l.sheet.MayAccept { // it would wait for an end that nobody has promised
			return l.nothing(channel.UnknownFinding("the adapter found it accepted, which its sheet does not allow: " + f.Reason))
		}
		if l.pastFinal() {
			return l.unresolved("accepted, but not final in the time that the channel states")
		}
		return step{move: ledger.Probed{Fence: own, Finding: f.Kind, Evidence: f.Evidence, ProbeBegan: l.now, Look: l.wait(), Reason: f.Reason}, event: EventProbed}
	case channel.FindingFailedOutside:
		if f.Evidence.Empty() {
			return l.nothing(channel.UnknownFinding("failed outside, but without evidence"))
		}
		return step{move: ledger.Abandon{Fence: own, As: ledger.FailedOutside, Reason: f.Reason, Evidence: f.Evidence}, event: EventFailedOutside}
	case channel.FindingAbsentForGood:
		if l.absenceCounts(f) {
			if l.row.TokenLost(l.tokens, f.TokenDead) {
				return l.hold("it is not there under what is stored of its token, but an earlier life of the ledger may have sent it under a token that is lost; look for it by its content, and resolve it")
			}
			return step{
				move: ledger.Reopen{Fence: own, Proof: ledger.ProofAbsentForGood, ProbeBegan: l.now, TokenDead: f.TokenDead,
					ClockAllowance: l.clockAllowance, Error: "the probe proved that it was not sent: " + f.Reason},
				event: EventReopened,
			}
		}
		f.Kind = channel.FindingAbsentNow
		return l.nothing(f)
	default:
		return l.nothing(f)
	}
}

// absenceCounts applies the rules that adapters are not trusted with: a probe that began too early, or that cannot look back
// to the first send, proves no absence.
func (l look) absenceCounts(f channel.Finding) bool {
	if f.TokenDead && !(l.row.ProbeFirst && l.row.Sheet.NeedsStoredToken()) { // else another token may be alive
		return true
	}
	if !l.sheet.NegativeProof || !l.row.Sheet.NegativeProof {
		return false
	}
	if !l.now.After(l.row.AbsenceCountsFrom(l.clockAllowance)) {
		return false
	}
	horizon := l.row.Sheet.ProbeHorizon.D()
	first := l.row.FirstSentAt
	if first.IsZero() {
		first = l.firstPossible
	}
	return horizon == 0 || l.now.Sub(first) < horizon
}

// nothing records a look that settled nothing. Twice in a row, a settle time apart, past the time when an absence could count, it is the
// policy's turn.
func (l look) nothing(f channel.Finding) step {
	i := l.row
	settle := max(i.Sheet.SettleTime.D(), time.Second)
	due := l.now.After(i.AbsenceCountsFrom(l.clockAllowance))
	if due && f.Kind == channel.FindingAbsentNow && !f.Control {
		f.Kind = channel.FindingUnknown // nothing shows that the probe could have seen it: asked for ever, it would settle nothing
	}
	settled := i.LastPossibleSend.Add(i.Sheet.SettleTime.D())
	again := f.Kind == channel.FindingUnknown && i.Unknowns >= 1 && l.now.Sub(settled) >= settle ||
		f.Kind == channel.FindingAbsentNow && f.Control && !i.AbsentSince.IsZero() && l.now.Sub(i.AbsentSince) >= settle &&
			!i.AbsentSince.Before(settled)
	if due && again && !i.Accepted() {
		return l.unresolved("asked twice, a settle time apart: " + f.Kind.String() + ": " + f.Reason)
	}
	if i.Accepted() && l.pastFinal() {
		return l.unresolved("accepted, then not to be seen, and past the time in which it is final")
	}
	return step{
		move:  ledger.Probed{Fence: i.Fence(), Finding: f.Kind, ProbeBegan: l.now, Look: l.wait(), Reason: f.Reason},
		event: EventProbed,
	}
}

// unresolved is where the operator's policy decides.
func (l look) unresolved(reason string) step {
	i := l.row
	waitOut := !l.now.After(i.AbsenceCountsFrom(l.clockAllowance)) // an answer may still come, late
	stopped := l.mustStop()
	if i.ProbeFirst && !i.Accepted() && !i.Held() && !stopped && i.Sheet.Replay == channel.ReplayForEver && !l.noToken() {
		return step{
			move:  ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe, Margin: l.policy.Margin, Error: "the same bytes go again: " + reason},
			event: EventReopened,
		}
	}
	switch {
	case l.policy.Unknown == UnknownAbandon && waitOut, l.policy.Unknown == UnknownResend && !stopped && waitOut:
		return step{
			move:  ledger.Probed{Fence: i.Fence(), Finding: channel.FindingUnknown, ProbeBegan: l.now, Look: l.wait(), Reason: reason},
			event: EventProbed,
		}
	case l.policy.Unknown == UnknownAbandon:
		return step{move: ledger.Abandon{Fence: i.Fence(), As: ledger.Unknown, Reason: reason, Policy: true}, event: EventAbandoned}
	case l.policy.Unknown == UnknownResend && !i.Accepted() && !stopped && !i.Held() && !l.noToken():
		return step{move: ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofResend, Policy: true, Error: "sent again by policy: " + reason}, event: EventReopened}
	}
	return l.hold(reason)
}

// noToken reports whether an earlier life of the ledger may have sent it under a token that is lost, so that there are no bytes to send
// again.
func (l look) noToken() bool {
	return l.row.ProbeFirst && l.row.Sheet.NeedsStoredToken() && l.tokens == 0
}

func (l look) hold(reason string) step {
	return step{
		move: ledger.Hold{Fence: l.row.Fence(), Reason: reason, Look: l.heldWait(),
			FreeLane: l.policy.Lane == LaneSkip},
		event: EventHeld,
	}
}

// replaySafe reports whether the same stored bytes may go again now, and whether anybody still wants them to.
func (l look) replaySafe() bool {
	i := l.row
	if i.Accepted() || i.ProbeFirst || l.spent || l.mustStop() {
		return false
	}
	switch i.Sheet.Replay {
	case channel.ReplayForEver:
		return true
	case channel.ReplayWithinLife:
		return l.now.Before(i.FirstSentAt.Add(i.Sheet.TokenLife.D() - l.policy.Margin - l.policy.SendTimeout))
	}
	return false
}

func (l look) pastFinal() bool {
	within := l.sheet.FinalWithin.D()
	// A sheet that allows accepted states a time; one that does not, any more, promises nothing.
	return l.row.Accepted() && (!l.sheet.MayAccept || within > 0 && l.now.Sub(l.row.AcceptedAt) > within)
}

// heldWait is the time between two looks at a held intent: half of how long it has been held, ever more rarely.
func (l look) heldWait() time.Duration {
	if !l.row.Held() {
		return l.policy.HeldEvery
	}
	return min(max(l.now.Sub(l.row.HeldAt)/2, l.policy.HeldEvery), l.policy.HeldMax)
}

// wait is the time to the next look: soon at first, and right when an absence begins to count.
func (l look) wait() time.Duration {
	if l.row.Held() {
		return l.heldWait()
	}
	wait := l.policy.probeWait(l.row.Probes)
	if l.row.Stamped() || l.row.ProbeFirst {
		if counts := l.row.AbsenceCountsFrom(l.clockAllowance).Sub(l.now) + 10*time.Millisecond; counts > 0 && counts < wait {
			wait = counts
		}
	}
	return wait
}
