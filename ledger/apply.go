package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

// Apply decides one move: it is the whole state machine, a pure function of what a backend read under the row's lock. It returns
// what to write, or why nothing may be written: [ErrNoIntent], [ErrFenceLost], [ErrFenceExpired], [ErrFenceAlive],
// [ErrTerminal], [ErrNumberMoved], a [*RefusedError].
func Apply(s Snapshot, m Move) (Change, error) {
	read := s.Intent
	s.restore()
	c, err := apply(s, m)
	c.restored(read)
	return c, err
}

func apply(s Snapshot, m Move) (Change, error) {
	c := Change{Result: Result{Now: s.Now, Tokens: s.Tokens}}
	if late, ok := m.(Late); ok {
		return c, late.apply(&s, &c)
	}
	if !s.Found {
		return c, fmt.Errorf("%s: %w", m.name(), ErrNoIntent)
	}
	s.Intent = s.Intent.clone()
	c.Result.Intent = s.Intent
	if !s.Intent.State.Terminal() && len(s.Late) > 0 {
		if useLate(&s, &c) {
			if commit, ok := m.(Commit); ok {
				commit.keepBesideLate(&s, &c)
			}
			return c, nil
		}
	}
	c.Result.Applied = true
	if err := m.apply(&s, &c); err != nil {
		return Change{Result: Result{Intent: s.Intent, Tokens: s.Tokens, Now: s.Now}}, fmt.Errorf("%s %s: %w", m.name(), s.Key, err)
	}
	return c, nil
}

// useLate reads the late evidence that has arrived, before anything else is decided: a not sent clears the doubt of its own attempt,
// of no other; a sent commits the row.
func useLate(s *Snapshot, c *Change) (settled bool) {
	for _, l := range s.Late {
		if l.Outcome == LateSent {
			commitLate(s, c, l)
			return true
		}
	}
	before := s.Intent
	now := s.Intent.clone()
	for _, l := range s.Late {
		c.UsedLate = append(c.UsedLate, l.ID)
		// A restored ledger counts attempts again from an older number: what another epoch says of its second attempt says nothing
		// of ours.
		if l.Outcome != LateNotSent || l.Fence.Epoch != s.Epoch {
			continue
		}
		now.Doubts = slices.DeleteFunc(now.Doubts, func(a int) bool { return a == l.Attempt })
		// The stamp is that attempt's own only while no later dispatch has begun, and its holder has lost the fence.
		if now.Stamped() && now.Attempts == l.Attempt {
			now.SendStartedAt = time.Time{}
		}
	}
	c.step(before, now, "")
	c.Phase, c.DueAt = PhaseLook, now.nextLook() // unless the move says otherwise
	if now.State == StateIntent {
		c.Phase, c.DueAt = PhaseSend, now.DueAt
	}
	s.Intent = now
	return false
}

// commitLate takes the row for the late evidence, with a number of its own, and commits it.
func commitLate(s *Snapshot, c *Change, l LateEvidence) {
	taken := s.Intent.clone()
	if taken.State == StateIntent {
		taken.takeProbing(s, l.Fence.Owner, 0)
		c.step(s.Intent, taken, "")
	}
	done := taken.clone()
	if s.Intent.State != StateIntent {
		done.FenceNumber++ // whoever holds the fence now must find it lost
		done.FenceOwner = l.Fence.Owner
		done.LedgerEpoch = s.Epoch
	}
	c.UsedLate = append(c.UsedLate, l.ID)
	id := EvidenceID(l.Evidence)
	if s.EvidenceTaken {
		holdSecondClaimant(s, c, taken, id, l.Evidence)
		return
	}
	done.commit(s.Now, l.Evidence, ByLate)
	c.step(taken, done, "")
	c.EvidenceID = newEvidenceID(done, id)
	c.finish(done)
	c.log(done, LogReconciled, logDetail{Reason: "late evidence of a worker whose fence was gone", Evidence: l.Evidence,
		Fence: l.Fence.String()})
	c.Receipts = append(c.Receipts, effect(*s, done, receipt.Committed))
}

// step appends an update of the row and makes its result the move's.
func (c *Change) step(from, to Intent, p Proof) {
	c.Steps = append(c.Steps, Step{From: from, To: to, Proof: p})
	c.Result.Intent = to
}

// finish ends the row's queue entry and its lane's turn.
func (c *Change) finish(i Intent) {
	c.Phase, c.DueAt = PhaseDone, time.Time{}
	c.endTurn(i)
}

// endTurn lets the lane go on, once.
func (c *Change) endTurn(i Intent) {
	if i.Lane == "" || i.LaneTurnEnded {
		return
	}
	c.EndTurn = true
	last := &c.Steps[len(c.Steps)-1]
	last.To.LaneTurnEnded = true
	c.Result.Intent = last.To
}

// own checks that f is the row's fence: state, epoch, number and owner. It need not be unexpired: that is enough to write
// what happened, not to be allowed more.
func (s *Snapshot) own(f fence.Fence) error {
	i := s.Intent
	if i.State.Terminal() {
		return ErrFenceLost
	}
	if i.State != StateDispatched || i.Fence() != f || f.Epoch != s.Epoch || f.Owner == "" { // a fence given back is nobody's
		return ErrFenceLost
	}
	return nil
}

// may checks that f is the row's fence and is not expired.
func (s *Snapshot) may(f fence.Fence) error {
	if err := s.own(f); err != nil {
		return err
	}
	if !s.Now.Before(s.Intent.FenceExpiresAt) {
		return ErrFenceExpired
	}
	return nil
}

// dead reports whether the fence expired by more than the allowance. A fence of another epoch is dead when it expired, too:
// what was under way when the ledger was restored runs out as well.
func (s *Snapshot) dead(allowance time.Duration) bool {
	if allowance <= 0 {
		allowance = fence.DefaultClockAllowance
	}
	return s.Now.After(s.Intent.FenceExpiresAt.Add(allowance))
}

// takeProbing gives the row a probing fence: a new number; stamp, tokens and last possible send are kept.
func (i *Intent) takeProbing(s *Snapshot, owner string, ttl time.Duration) {
	i.State = StateDispatched
	i.FenceNumber++
	i.FenceOwner = owner
	i.FenceExpiresAt = s.Now.Add(ttl)
	i.LedgerEpoch = s.Epoch
	i.Probing = true
	i.By = ""
}

// giveBack ends a fence without ending the dispatch: nobody owns the row, and no earlier write can match it.
func (i *Intent) giveBack(s *Snapshot) {
	i.FenceNumber++
	i.FenceOwner = ""
	i.FenceExpiresAt = s.Now
	i.Probing = true
}

func (i *Intent) commit(now time.Time, evidence json.RawMessage, how Established) {
	i.State = StateCommitted
	i.Evidence = evidence
	i.CommittedAt = now
	i.Established = how
	i.HeldAt, i.HoldReason = time.Time{}, ""
	i.ProbeAt = time.Time{}
	i.Probing = false
}

// toIntent is the row after a reopen: a new number, so that nothing written under the old fence matches.
func (i *Intent) toIntent(now time.Time) {
	i.State = StateIntent
	i.FenceNumber++
	i.FenceOwner = ""
	i.FenceExpiresAt = time.Time{}
	i.SendStartedAt = time.Time{}
	i.Probing = false
	i.AcceptedAt = time.Time{}
	i.ProbeAt = time.Time{}
	i.Unknowns = 0
	i.AbsentSince = time.Time{}
	i.HeldAt, i.HoldReason = time.Time{}, ""
	i.DueAt = now
}

func (i *Intent) clearDoubt() {
	i.Doubts = nil
	i.SendStartedAt = time.Time{}
	i.AcceptedAt = time.Time{}
	i.ProbeFirst = false
}

// keepDoubt turns the stamped attempt, and what an earlier life of the ledger may have sent, into doubt.
func (i *Intent) keepDoubt() {
	if i.ProbeFirst && !slices.Contains(i.Doubts, earlierLife) {
		i.Doubts = append(i.Doubts, earlierLife)
	}
	i.ProbeFirst = false
	if i.Stamped() && !slices.Contains(i.Doubts, i.Attempts) {
		i.Doubts = append(i.Doubts, i.Attempts)
	}
}

// effect is the receipt's view of the row.
func effect(s Snapshot, i Intent, outcome receipt.Outcome) receipt.Effect {
	e := receipt.Effect{
		Outcome: outcome, RunID: i.RunID, EffectKey: i.EffectKey, Channel: i.Channel, Kind: i.Kind,
		PayloadDigest: canonical.Algorithm + ":" + i.PayloadDigest, ExternalRef: i.Evidence, Established: i.Established, By: i.By,
		Attempt: i.Attempts, Starts: i.Starts, FenceNumber: i.FenceNumber, LedgerEpoch: i.LedgerEpoch, LedgerID: s.LedgerID,
		AbandonedAs: i.AbandonedAs, CreatedAt: i.CreatedAt, FirstSentAt: i.FirstSentAt, At: s.Now,
	}
	e.SentAt = s.Intent.SendStartedAt
	if n := len(s.Tokens); n > 0 {
		e.TokenDigest = s.Tokens[n-1].Digest()
	}
	if i.Approval != nil {
		e.Approval, _ = json.Marshal(i.Approval) // a struct of strings and times cannot fail
	}
	switch outcome {
	case receipt.Held:
		e.Reason = i.HoldReason
	case receipt.Abandoned:
		e.Reason = i.AbandonReason
	case receipt.Late:
		e.ExternalRef = i.LateEvidence
		e.Established = ByLate
		e.Reason = "evidence that arrived after the intent had ended"
	}
	return e
}

// newEvidenceID is what must be unique on the channel, where the sheet says that ids name one effect.
func newEvidenceID(i Intent, id string) string {
	plain, ok := plainID(id)
	if !i.Sheet.EvidenceNamesOneEffect || !ok {
		return ""
	}
	return plain
}
