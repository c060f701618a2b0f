package ledger

import (
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/receipt"
)

func (ProbeFence) name() string { return "probing fence" }

func (m ProbeFence) apply(s *Snapshot, c *Change) error {
	i := s.Intent
	switch {
	case i.State.Terminal():
		return ErrTerminal
	case m.TTL <= 0:
		return &RefusedError{"probing fence", "time-to-live", "the fence's time to live must be positive"}
	case m.Owner == "":
		return &RefusedError{"probing fence", "owner", "a fence without an owner is nobody's; name the instance"}
	case m.Number != 0 && m.Number != i.FenceNumber:
		return ErrNumberMoved
	case i.State == StateIntent && !i.InDoubt():
		return &RefusedError{"probing fence", "nothing-to-probe", "the intent was never sent"}
	case i.State == StateDispatched && !m.takes(s):
		return ErrFenceAlive
	}
	to := i.clone()
	to.takeProbing(s, m.Owner, m.TTL)
	m.learn(s, &to)
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.FenceExpiresAt
	c.Result.FirstPossible = s.firstPossible(to)
	c.Result.Remaining = m.TTL
	c.Result.FenceEnded = i.FenceExpiresAt
	return nil
}

// takes reports whether the row's fence is no obstacle: given back, dead, or of an instance that is dead where looking early
// cannot lead to a false absence (nothing was stamped, the same bytes may go again, or the probe finds the effect).
func (m ProbeFence) takes(s *Snapshot) bool {
	i := s.Intent
	if i.FenceOwner == "" || s.dead(m.ClockAllowance) {
		return true
	}
	if i.Probing && !s.Now.Before(i.FenceExpiresAt) {
		return true // a probing fence allows no send: its end needs no allowance
	}
	if m.Person && i.Probing {
		return true
	}
	if m.HeartbeatTimeout > 0 && !s.OwnerSeen.IsZero() && s.Now.Sub(s.OwnerSeen) > m.HeartbeatTimeout {
		return !i.Stamped() || i.Sheet.Replay == channel.ReplayForEver ||
			(i.Sheet.Probe == channel.ProbeExact && i.Sheet.NegativeProof)
	}
	return false
}

func (Probed) name() string { return "probed" }

func (m Probed) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	to := i.clone()
	to.giveBack(s)
	to.ProbeAt = s.Now.Add(m.Look)
	if m.NotAsked {
		c.step(i, to, "")
		c.Phase, c.DueAt = PhaseLook, to.ProbeAt
		return nil
	}
	to.Probes++
	outcome := LogUnknown
	switch m.Finding {
	case channel.FindingAccepted:
		outcome = LogAccepted
		if to.AcceptedAt.IsZero() {
			to.AcceptedAt = s.Now
		}
		if !m.Evidence.Empty() {
			to.Evidence = EncodeEvidence(m.Evidence)
		}
		to.Unknowns, to.AbsentSince = 0, time.Time{}
	case channel.FindingAbsentNow:
		outcome = LogAbsentNow
		to.Unknowns = 0
		// An absence that was seen before the last message had settled is not the first of two.
		if settled := i.LastPossibleSend.Add(i.Sheet.SettleTime.D()); to.AbsentSince.IsZero() || to.AbsentSince.Before(settled) {
			to.AbsentSince = m.ProbeBegan
		}
	default:
		to.Unknowns++
		to.AbsentSince = time.Time{}
	}
	if m.Reason != "" {
		to.LastError = bounded(m.Reason)
	}
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.ProbeAt
	if to.Accepted() && i.Sheet.AcceptedFreesLane {
		c.endTurn(i)
	}
	c.log(to, outcome, logDetail{Reason: m.Reason, ProbeBegan: stampText(m.ProbeBegan)})
	return nil
}

func (Late) name() string { return "late evidence" }

// apply keeps the evidence whatever the row is, or is not. A row that lives is settled by the next move on it, whoever makes it,
// and is put before the reconciler at once; a terminal one keeps it beside it.
func (m Late) apply(s *Snapshot, c *Change) error {
	late := LateEvidence{
		Key: m.Key, Fence: m.Fence, Attempt: m.Attempt, Outcome: m.Outcome, Evidence: EncodeEvidence(m.Evidence),
		Reason: bounded(m.Reason), At: s.Now,
	}
	c.NewLate = &late
	c.Result.Applied = true
	entry := Intent{Key: m.Key, Attempts: m.Attempt, FenceNumber: m.Fence.Number, FenceOwner: m.Fence.Owner, LedgerEpoch: m.Fence.Epoch}
	c.log(entry, LogLate, logDetail{Reason: string(m.Outcome) + " " + m.Reason, Evidence: late.Evidence})
	if !s.Found {
		c.Result.Alarm = "late evidence for an intent that this ledger does not have: it is older than the outside world"
		return nil
	}
	i := s.Intent
	c.Result.Intent = i
	if !i.State.Terminal() {
		to := i.clone()
		c.Phase, c.DueAt = PhaseLook, s.Now
		if i.State == StateIntent {
			if m.Outcome == LateSent { // a not sent waits: the outside system may have asked for the delay
				to.DueAt = s.Now
			}
			c.Phase, c.DueAt = PhaseSend, to.DueAt
		}
		c.step(i, to, "")
		return nil
	}
	if m.Outcome != LateSent || len(i.LateEvidence) > 0 {
		return nil
	}
	if i.State == StateCommitted && (i.Fence() == m.Fence || m.saysTheSame(i, late.Evidence)) {
		return nil // our own commit had worked, or a probe was quicker than the answer
	}
	to := i.clone()
	to.LateEvidence = late.Evidence
	c.step(i, to, "")
	c.Phase = PhaseDone
	c.Result.Alarm = "evidence arrived for an intent that had ended as " + i.Outcome()
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Late))
	return nil
}

// saysTheSame reports whether the evidence is that of the one attempt there ever was, which the intent is committed with. After several
// attempts the same id may stand for two effects: a token outlives an attempt.
func (m Late) saysTheSame(i Intent, evidence json.RawMessage) bool {
	id := EvidenceID(evidence)
	return i.Attempts == 1 && m.Attempt == 1 && id != "" && id == EvidenceID(i.Evidence)
}
