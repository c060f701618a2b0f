package ledger

import (
	"strings"
	"time"

	"github.com/pawlworks/pawl/receipt"
)

func (Fence) name() string { return "fence" }

// apply looks again at everything that a claim was allowed by, then takes the row for one dispatch. An intent that must not be
// sent is settled instead: cancelled, expired or without a good approval it is abandoned if nothing was ever sent; in doubt it is
// taken by a probing fence and found out first.
func (m Fence) apply(s *Snapshot, c *Change) error {
	i := s.Intent
	switch {
	case i.State.Terminal():
		return ErrTerminal
	case i.State != StateIntent:
		return ErrFenceLost
	case m.TTL <= 0:
		return &RefusedError{"fence", "time-to-live", "the fence's time to live must be positive"}
	case m.Owner == "":
		return &RefusedError{"fence", "owner", "a fence without an owner is nobody's; name the instance"}
	case s.Paused:
		return &RefusedError{"fence", "paused", "the channel is paused or off"}
	case i.DueAt.After(s.Now):
		return &RefusedError{"fence", "not-due", "the intent is not due yet"}
	}
	if as, reason := m.mustNotSend(s); reason != "" {
		c.Result.Applied = false
		return settleUnsent(s, c, as, reason, m.Owner)
	}
	if i.ProbeFirst {
		c.Result.Applied = false
		probeInstead(s, c, m.Owner)
		return nil
	}
	released := i.By != "" // by a person, who knows the ceilings: for one more try
	if m.StartCeiling > 0 && i.Starts >= m.StartCeiling && !released {
		c.Result.Applied = false
		holdInstead(s, c, m.Owner, "quarantined: past the ceiling of starts; the program died each time")
		return nil
	}
	if m.AttemptCeiling > 0 && i.Attempts >= m.AttemptCeiling && !released {
		c.Result.Applied = false
		if !i.InDoubt() {
			return settleUnsent(s, c, NeverSent, "past the ceiling of attempts; each was proven not sent: "+i.LastError, m.Owner)
		}
		holdInstead(s, c, m.Owner, "past the ceiling of attempts, and one may have taken effect")
		return nil
	}
	to := i.clone()
	to.State = StateDispatched
	to.FenceNumber++
	to.FenceOwner = m.Owner
	to.FenceExpiresAt = s.Now.Add(m.TTL)
	to.LedgerEpoch = s.Epoch
	to.Probing = false
	to.By = ""
	to.Starts++
	c.step(s.Intent, to, "")
	c.Phase, c.DueAt = PhaseLook, to.FenceExpiresAt
	c.Result.Remaining = m.TTL
	c.log(to, LogFenced, logDetail{})
	return nil
}

// mustNotSend says why the intent may not be sent any more; empty if it may.
func (m Fence) mustNotSend(s *Snapshot) (AbandonedAs, string) {
	i := s.Intent
	switch {
	case !i.CancelRequestedAt.IsZero():
		return NeverSent, "cancelled: " + i.CancelReason
	case s.RunCancelled:
		return NeverSent, "cancelled: its run was cancelled"
	case !i.ExpiresAt.IsZero() && !s.Now.Before(i.ExpiresAt):
		return NeverSent, "expired before it was sent"
	}
	if i.Approval == nil {
		if m.ApprovalRequired {
			return NeverSent, "the channel requires an approval and there is none"
		}
		return "", ""
	}
	key := strings.TrimPrefix(i.EffectKey, ShadowPrefix) // what was approved is the real key
	if reason := i.Approval.Check(i.Channel, key, i.PayloadDigest, s.Now); reason != "" {
		return NeverSent, reason
	}
	return "", ""
}

// settleUnsent abandons an intent that was never sent, or has it probed where an attempt may have taken effect.
func settleUnsent(s *Snapshot, c *Change, as AbandonedAs, reason, owner string) error {
	if s.Intent.InDoubt() {
		probeInstead(s, c, owner)
		return nil
	}
	to := s.Intent.clone()
	to.By = ""
	to.abandon(s.Now, as, reason)
	c.step(s.Intent, to, "")
	c.finish(to)
	c.log(to, LogAbandoned, logDetail{As: string(as), Reason: reason})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Abandoned))
	return nil
}

// probeInstead takes the intent by a probing fence that is over at once, for the reconciler: no start counted, no send
// allowed.
func probeInstead(s *Snapshot, c *Change, owner string) {
	to := s.Intent.clone()
	to.takeProbing(s, owner, 0)
	to.giveBack(s)
	to.ProbeAt = s.Now
	c.step(s.Intent, to, "")
	c.Phase, c.DueAt = PhaseLook, s.Now
	c.log(to, LogFenced, logDetail{Reason: "taken for probing: it must not be sent before it is known what became of it"})
}

func holdInstead(s *Snapshot, c *Change, owner, reason string) {
	to := s.Intent.clone()
	to.takeProbing(s, owner, 0)
	to.giveBack(s)
	to.HeldAt, to.HoldReason = s.Now, bounded(reason)
	to.ProbeAt = s.Now
	c.step(s.Intent, to, "")
	c.Phase, c.DueAt = PhaseLook, s.Now
	c.log(to, LogHeld, logDetail{Reason: reason})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Held))
}

func (i *Intent) abandon(now time.Time, as AbandonedAs, reason string) {
	i.State = StateAbandoned
	i.AbandonedAs = as
	i.AbandonReason = bounded(reason)
	i.CommittedAt = now
	i.HeldAt, i.HoldReason = time.Time{}, ""
	i.ProbeAt = time.Time{}
	i.Probing = false
}
