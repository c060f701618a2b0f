package ledger

import (
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

func (Reopen) name() string { return "reopen" }

func (m Reopen) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	to := i.clone()
	if err := m.prove(s, &to); err != nil {
		return err
	}
	if m.Error != "" {
		to.LastError = bounded(m.Error)
	}
	c.TokensDead = m.Proof == ProofAbsentForGood && m.TokenDead
	switch as, reason := (Fence{}).mustNotSend(s); { // a cancel during a dispatch is obeyed here
	case reason == "":
	case !to.InDoubt():
		to.abandon(s.Now, as, reason)
		c.step(i, to, m.Proof)
		c.finish(to)
		c.log(to, LogAbandoned, logDetail{As: string(as), Reason: reason, Proof: m.Proof})
		c.Receipts = append(c.Receipts, effect(*s, to, receipt.Abandoned))
		return nil
	case i.Probing: // the fence would only hand it back
		return &RefusedError{"reopen", "cancel-despite-doubt", "it must not be sent again (" + reason + ") and may have taken effect: find out, or leave it to the policy"}
	default: // the worker hands back what it must not send
		to.giveBack(s)
		to.ProbeAt = s.Now
		c.step(i, to, m.Proof)
		c.Phase, c.DueAt = PhaseLook, s.Now
		c.Result.Applied = false
		c.log(to, LogFenced, logDetail{Proof: m.Proof, Reason: "left for probing: " + reason})
		return nil
	}
	if m.Proof == ProofReplaySafe || m.Proof == ProofResend {
		to.keepDoubt()
	}
	to.toIntent(s.Now.Add(m.After))
	c.step(i, to, m.Proof)
	c.Phase, c.DueAt = PhaseSend, to.DueAt
	outcome := LogReopened
	if m.Proof == ProofNotSent {
		outcome = LogNotSent
	}
	c.log(i, outcome, logDetail{Proof: m.Proof, Reason: m.Error, ProbeBegan: stampText(m.ProbeBegan)})
	return nil
}

// prove checks the proof that the reopen names, and settles on to what it proves.
func (m Reopen) prove(s *Snapshot, to *Intent) error {
	i := s.Intent
	refuse := func(rule, format string, args ...any) error {
		return &RefusedError{"reopen", rule, fmt.Sprintf(format, args...)}
	}
	if i.Accepted() && m.Proof != ProofAbsentForGood {
		return refuse("replay-accepted", "the outside system has it already")
	}
	switch m.Proof {
	case ProofNoStamp:
		if i.Stamped() {
			return refuse("reopen-names-no-stamp", "there is a stamp under this fence")
		}
	case ProofNotSent:
		if i.Probing && i.Stamped() {
			return refuse("resend-of-stamped", "the stamp is another fence's: only its own attempt can be not sent")
		}
		to.SendStartedAt = time.Time{} // clears its own attempt, of no other
	case ProofAbsentForGood:
		if s.tokenLost(m.TokenDead) {
			return refuse("restore-token-lost", "an earlier life of the ledger may have sent it under a token that is lost")
		}
		if !m.TokenDead || s.deathUnproven() {
			if !i.Sheet.NegativeProof {
				return refuse("reopen-on-absent-now", "the channel's probe cannot prove an absence")
			}
			if m.ProbeBegan.After(s.Now) {
				return refuse("no-settle-time", "the probe began at %s, which is not yet", stampText(m.ProbeBegan))
			}
			if earliest := i.AbsenceCountsFrom(m.ClockAllowance); !m.ProbeBegan.After(earliest) {
				return refuse("no-settle-time", "the probe began at %s and counts only after %s", stampText(m.ProbeBegan), stampText(earliest))
			}
			if h := i.Sheet.ProbeHorizon.D(); h > 0 && s.Now.Sub(s.firstPossible(i)) > h {
				return refuse("probe-horizon", "the probe cannot look back to the first send")
			}
		}
		to.clearDoubt()
	case ProofReplaySafe:
		if s.noToken() {
			return refuse("restore-token-lost", "the bytes that an earlier life of the ledger may have sent are lost")
		}
		life := shortest(i.Sheet.TokenLife.D(), s.Tokens)
		safe := i.Sheet.Replay == channel.ReplayForEver || i.Sheet.Replay == channel.ReplayWithinLife
		// What is sent now may arrive a settle time later, and must still find the token honoured.
		if !safe || life > 0 && !s.Now.Before(i.FirstSentAt.Add(life-m.Margin-i.Sheet.SettleTime.D())) {
			return refuse("token-life", "the channel is not replay-safe, or no longer")
		}
	case ProofResend:
		if !m.Policy {
			return refuse("resend-of-stamped", "the channel's policy does not accept duplicates")
		}
		if s.noToken() {
			return refuse("restore-token-lost", "the token that an earlier life of the ledger may have sent is lost, and is never replaced")
		}
	default:
		return refuse("proof", "%q is no proof", m.Proof)
	}
	return nil
}

// AbsenceCountsFrom is the moment that a probe must begin after for its absence to count: last possible send + settle
// time + clock allowance.
func (i Intent) AbsenceCountsFrom(allowance time.Duration) time.Time {
	if allowance <= 0 {
		allowance = fence.DefaultClockAllowance
	}
	return i.LastPossibleSend.Add(i.Sheet.SettleTime.D() + allowance)
}

func (Abandon) name() string { return "abandon" }

func (m Abandon) apply(s *Snapshot, c *Change) error {
	i := s.Intent
	if i.State == StateAbandoned && i.Fence() == m.Fence && i.AbandonedAs == m.As {
		return nil
	}
	if err := s.own(m.Fence); err != nil {
		return err
	}
	to := i.clone()
	var proof Proof
	if m.NotSent && !i.Probing && i.Stamped() {
		to.SendStartedAt, proof = time.Time{}, ProofNotSent
	}
	switch m.As {
	case NeverSent, Refused:
		if to.InDoubt() {
			return &RefusedError{"abandon", "cancel-despite-doubt", "an attempt may have taken effect; it can only be abandoned as unknown"}
		}
	case FailedOutside:
		if m.Evidence.Empty() {
			return &RefusedError{"abandon", "evidence", "failed outside needs evidence"}
		}
		to.Evidence = EncodeEvidence(m.Evidence)
	case Unknown:
		if !m.Policy {
			return &RefusedError{"abandon", "policy", "unknown needs the channel's policy abandon, or a person"}
		}
	default:
		return &RefusedError{"abandon", "kind", fmt.Sprintf("%q is no end", m.As)}
	}
	to.abandon(s.Now, m.As, m.Reason)
	c.step(i, to, proof)
	c.finish(to)
	outcome := LogAbandoned
	switch m.As {
	case Refused:
		outcome = LogRejected
	case FailedOutside:
		outcome = LogFailedOutside
	}
	c.log(to, outcome, logDetail{As: string(m.As), Reason: m.Reason})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Abandoned))
	return nil
}

func (Hold) name() string { return "hold" }

func (m Hold) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	to := i.clone()
	first := !i.Held()
	to.hold(s, m.Reason, m.Look)
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.ProbeAt
	if m.FreeLane {
		c.endTurn(i)
	}
	if first {
		c.log(to, LogHeld, logDetail{Reason: m.Reason})
		c.Receipts = append(c.Receipts, effect(*s, to, receipt.Held))
	}
	return nil
}

// hold gives the row a number of its own, so that no earlier write matches it.
func (i *Intent) hold(s *Snapshot, reason string, look time.Duration) {
	if !i.Held() {
		i.HeldAt = s.Now
	}
	i.HoldReason = bounded(reason)
	i.giveBack(s)
	i.ProbeAt = s.Now.Add(look)
}

func (RequestCancel) name() string { return "cancel" }

func (m RequestCancel) apply(s *Snapshot, c *Change) error {
	i := s.Intent
	switch {
	case i.State.Terminal():
		return ErrTerminal
	case m.By == "":
		return &RefusedError{"cancel", "person", "say who cancels"}
	case !i.CancelRequestedAt.IsZero():
		return nil
	}
	reason := m.By
	if m.Reason != "" {
		reason += ": " + m.Reason
	}
	if i.State == StateIntent && !i.InDoubt() {
		return settleUnsent(s, c, NeverSent, "cancelled: "+reason, "")
	}
	to := i.clone()
	to.CancelRequestedAt, to.CancelReason = s.Now, bounded(reason)
	if i.State == StateIntent {
		to.DueAt = s.Now
	}
	c.step(i, to, "")
	if i.State == StateIntent {
		c.Phase, c.DueAt = PhaseSend, s.Now // the fence takes it for probing
	} else {
		c.Phase, c.DueAt = PhaseLook, i.nextLook()
	}
	return nil
}

// nextLook is when the reconciler should look at a dispatched row.
func (i Intent) nextLook() time.Time {
	if !i.ProbeAt.IsZero() {
		return i.ProbeAt
	}
	return i.FenceExpiresAt
}

func (Resolve) name() string { return "resolve" }

func (m Resolve) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	if !i.Probing {
		return &RefusedError{"resolve", "reconciler-unfenced", "take a probing fence first"}
	}
	if m.By == "" || m.Reason == "" {
		return &RefusedError{"resolve", "person", "say who decides and why"}
	}
	to := i.clone()
	to.By = bounded(m.By) // of a retry: until the next fence, which the ceilings then do not stop
	switch m.As {
	case DecideSent:
		to.commit(s.Now, EncodeEvidence(channel.Evidence{}), ByPerson)
		c.step(i, to, "")
		c.finish(to)
		e := effect(*s, to, receipt.Committed)
		e.Reason = bounded(m.Reason)
		c.Receipts = append(c.Receipts, e)
	case DecideNotSent, DecideUnknown:
		as := NeverSent
		if m.As == DecideUnknown {
			as = Unknown
		} else {
			to.clearDoubt()
		}
		to.Established = ByPerson
		to.abandon(s.Now, as, m.Reason)
		c.step(i, to, ProofPerson)
		c.finish(to)
		c.Receipts = append(c.Receipts, effect(*s, to, receipt.Abandoned))
	case DecideRetry:
		to.clearDoubt()
		// What was begun may still be sent until its not-after, whoever looked: by then its sender has refused, or has answered, and
		// late evidence is read before anything goes again.
		to.toIntent(later(s.Now, i.LastPossibleSend))
		c.step(i, to, ProofPerson)
		c.Phase, c.DueAt = PhaseSend, to.DueAt
	default:
		return &RefusedError{"resolve", "decision", fmt.Sprintf("%q is no decision: use sent, notsent, retry or unknown", m.As)}
	}
	c.log(to, LogResolved, logDetail{By: m.By, As: string(m.As), Reason: m.Reason})
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func stampText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
