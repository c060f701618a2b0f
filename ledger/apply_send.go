package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/receipt"
)

func (PutToken) name() string { return "put token" }

func (m PutToken) apply(s *Snapshot, c *Change) error {
	if err := s.may(m.Fence); err != nil {
		return err
	}
	doubt := s.Intent.clone()
	if m.NotSent { // its own attempt proves nothing against a further version; an earlier one's doubt does
		doubt.SendStartedAt = time.Time{}
	}
	return putToken(s, c, m.Token, s.Intent.Sheet, m.DrawsFromLane, doubt.InDoubt())
}

// putToken stores a version by compare-and-set: the stored one wins. A version for a row that may have been sent is stored
// only if all versions exclude each other outside, or all earlier ones are dead for good.
func putToken(s *Snapshot, c *Change, t channel.Token, sheet StampedSheet, drawsFromLane, inDoubt bool) error {
	if s.Intent.Probing {
		return &RefusedError{"put token", "probing", "a probing fence makes no tokens"}
	}
	for _, have := range s.Tokens {
		if have.Version == t.Version {
			c.Result.Token = have
			return nil
		}
	}
	if t.Version != len(s.Tokens)+1 {
		return &RefusedError{"put token", "version", fmt.Sprintf("version %d does not follow the %d that are stored", t.Version, len(s.Tokens))}
	}
	if s.laterTokenLost(sheet) {
		return &RefusedError{"put token", "restore-token-lost", "an earlier life of the ledger may have made and sent a further version, which is lost: look for it, and resolve the intent"}
	}
	if t.Version > 1 && !t.ExcludesEarlier {
		for _, have := range s.Tokens {
			if !have.Dead && inDoubt {
				return &RefusedError{"put token", "token-remade", "an earlier version may still take effect and the new one does not exclude it"}
			}
		}
	}
	t.MadeAt = s.Now
	c.NewToken, c.RaiseLane = &t, drawsFromLane && s.Intent.Lane != ""
	c.Result.Token = t
	c.Result.Tokens = append(append([]channel.Token(nil), s.Tokens...), t)
	return nil
}

func (Stamp) name() string { return "stamp" }

func (m Stamp) apply(s *Snapshot, c *Change) error {
	if err := s.may(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	switch {
	case i.Probing:
		return &RefusedError{"stamp", "probing", "a probing fence sends nothing"}
	case i.Stamped():
		return &RefusedError{"stamp", "resend-of-stamped", "this fence has a stamp already: one send for each fence"}
	case i.Shadow():
		return &RefusedError{"stamp", "shadow", "an intent that was claimed in shadow is never sent"}
	case !i.CancelRequestedAt.IsZero():
		return &RefusedError{"stamp", "cancelled", "the intent was cancelled before it was sent"}
	case m.Margin <= 0 || m.SendTimeout <= 0 || m.CommitBound <= 0:
		return &RefusedError{"stamp", "times", "send timeout, commit bound and margin must be positive"}
	}
	if m.Token != nil {
		if err := putToken(s, c, *m.Token, StampSheet(m.Sheet), m.DrawsFromLane, i.InDoubt()); err != nil {
			return err
		}
	} else if len(s.Tokens) == 0 {
		return &RefusedError{"stamp", "token", "no token is stored"}
	}
	if left := i.FenceExpiresAt.Sub(s.Now); left < m.SendTimeout+m.CommitBound+m.Margin {
		return ErrFenceExpired
	}
	notAfter, err := m.notAfter(s, c.Result.Tokens)
	if err != nil {
		return err
	}
	to := i.clone()
	to.SendStartedAt = s.Now
	to.Attempts++
	if to.FirstSentAt.IsZero() {
		to.FirstSentAt = s.Now
	}
	if notAfter.After(to.LastPossibleSend) {
		to.LastPossibleSend = notAfter // never moved earlier
	}
	to.Sheet = StampSheet(m.Sheet)
	if i.InDoubt() { // an earlier attempt may still take effect, by the rules that it was sent under
		to.Sheet = to.Sheet.weaker(i.Sheet)
	}
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.FenceExpiresAt
	c.Result.Remaining = notAfter.Sub(s.Now)
	return nil
}

// notAfter is the earliest of: start of the send + its time-out, the fence's expiry − commit bound − margin, the intent's and the
// approval's end, and the token's end of life − margin.
func (m Stamp) notAfter(s *Snapshot, tokens []channel.Token) (time.Time, error) {
	i := s.Intent
	notAfter := i.FenceExpiresAt.Add(-m.CommitBound - m.Margin)
	if t := s.Now.Add(m.SendTimeout); t.Before(notAfter) {
		notAfter = t
	}
	if !i.ExpiresAt.IsZero() && i.ExpiresAt.Before(notAfter) {
		notAfter = i.ExpiresAt
	}
	if i.Approval != nil && !i.Approval.Until.IsZero() && i.Approval.Until.Before(notAfter) {
		notAfter = i.Approval.Until
	}
	life := shortest(m.Sheet.Normal().TokenLife.D(), tokens)
	if i.InDoubt() && i.Sheet.TokenLife > 0 && (life == 0 || i.Sheet.TokenLife.D() < life) {
		life = i.Sheet.TokenLife.D() // an earlier attempt may still take effect: its own sheet counts
	}
	if life > 0 {
		first := i.FirstSentAt
		if first.IsZero() {
			first = s.Now
		}
		if i.InDoubt() { // what is sent at the last moment may arrive a settle time later, and must still find the token honoured
			life -= max(m.Sheet.SettleTime, i.Sheet.SettleTime).D()
		}
		if end := first.Add(life - m.Margin); end.Before(notAfter) {
			notAfter = end
		}
	}
	if !notAfter.After(s.Now) {
		return time.Time{}, &RefusedError{"stamp", "token-life", "the intent, its approval or its token has come to its end"}
	}
	return notAfter, nil
}

// shortest is the life that counts: the channel's or the newest token's own. 0: for ever.
func shortest(life time.Duration, tokens []channel.Token) time.Duration {
	if n := len(tokens); n > 0 {
		if own := tokens[n-1].Life; own > 0 && (life == 0 || own < life) {
			return own
		}
	}
	return life
}

func (Commit) name() string { return "commit" }

func (m Commit) apply(s *Snapshot, c *Change) error {
	i := s.Intent
	if i.State == StateCommitted && i.Fence() == m.Fence {
		return nil // our COMMIT reported an error and had worked
	}
	if err := s.own(m.Fence); err != nil {
		return err
	}
	if m.Established == BySend && !i.Stamped() {
		return &RefusedError{"commit", "no-stamp", "nothing was sent under this fence"}
	}
	if m.Established != BySend && m.Established != ByProbe {
		return &RefusedError{"commit", "evidence", "a commit needs a typed delivery or an exact finding"}
	}
	if s.EvidenceTaken {
		holdSecondClaimant(s, c, i, m.Evidence.ID, EncodeEvidence(m.Evidence))
		return nil
	}
	to := i.clone()
	to.commit(s.Now, EncodeEvidence(m.Evidence), m.Established)
	to.LastError = ""
	c.step(i, to, "")
	c.EvidenceID = newEvidenceID(i, m.Evidence.ID)
	c.finish(to)
	outcome := LogSent
	if m.Established == ByProbe {
		outcome = LogFound
	}
	c.log(to, outcome, logDetail{Reason: m.Detail})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Committed))
	return nil
}

// holdSecondClaimant leaves the row to a person: the outside system named one effect for two intents.
func holdSecondClaimant(s *Snapshot, c *Change, from Intent, id string, evidence json.RawMessage) {
	to := from.clone()
	to.hold(s, "the outside system gave an id that another intent of this channel already has: "+cut(id, 128), time.Hour)
	to.LastError = "second claimant of evidence"
	c.step(from, to, "")
	c.Phase, c.DueAt = PhaseLook, to.ProbeAt
	c.log(to, LogHeld, logDetail{Reason: to.HoldReason, Evidence: evidence})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Held))
	c.Result.Applied = false
}

// keepBesideLate keeps the evidence of a commit that late evidence of another attempt came before: if it names another
// effect, there were two.
func (m Commit) keepBesideLate(s *Snapshot, c *Change) {
	i := c.Result.Intent
	evidence := EncodeEvidence(m.Evidence)
	if s.own(m.Fence) != nil || i.State != StateCommitted || bytes.Equal(evidence, i.Evidence) || m.Evidence.Empty() {
		return
	}
	late := LateEvidence{Key: s.Key, Fence: m.Fence, Attempt: s.Intent.Attempts, Outcome: LateSent, Evidence: evidence, At: s.Now}
	if id := EvidenceID(evidence); id != "" && id == EvidenceID(i.Evidence) {
		return
	}
	to := i.clone()
	to.LateEvidence = evidence
	c.NewLate = &late
	c.step(i, to, "")
	c.Result.Alarm = "two attempts were delivered: the intent is committed with the evidence of one, and keeps that of the other"
	c.log(to, LogLate, logDetail{Reason: "sent", Fence: m.Fence.String(), Evidence: evidence})
	c.Receipts = append(c.Receipts, effect(*s, to, receipt.Late))
}

func (Accept) name() string { return "accept" }

func (m Accept) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	if !i.Probing && !i.Stamped() {
		return &RefusedError{"accept", "no-stamp", "nothing was sent under this fence"}
	}
	to := i.clone()
	if to.AcceptedAt.IsZero() {
		to.AcceptedAt = s.Now
	}
	to.Evidence = EncodeEvidence(m.Evidence)
	to.giveBack(s)
	to.Unknowns = 0
	to.AbsentSince = time.Time{}
	to.ProbeAt = s.Now.Add(m.LookAgain)
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.ProbeAt
	if i.Sheet.AcceptedFreesLane {
		c.endTurn(i)
	}
	c.log(to, LogAccepted, logDetail{Evidence: to.Evidence})
	return nil
}

func (Ambiguous) name() string { return "ambiguous" }

func (m Ambiguous) apply(s *Snapshot, c *Change) error {
	if err := s.own(m.Fence); err != nil {
		return err
	}
	i := s.Intent
	if !i.Stamped() {
		return &RefusedError{"ambiguous", "no-stamp", "nothing was sent under this fence"}
	}
	to := i.clone()
	to.giveBack(s)
	to.ProbeAt = s.Now.Add(m.Look)
	to.LastError = bounded(m.Reason)
	c.step(i, to, "")
	c.Phase, c.DueAt = PhaseLook, to.ProbeAt
	c.log(i, LogAmbiguous, logDetail{Reason: m.Reason})
	return nil
}
