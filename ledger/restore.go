package ledger

import (
	"slices"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// earlierLife stands among the doubtful attempts for whatever an earlier life of the ledger may have sent: attempts count from 1.
const earlierLife = 0

// restore reads a row as what it is in the present epoch: one that nobody has touched since the epoch was opened may have been sent by
// an earlier life of the ledger, under any fence that was still running then. It needs no mark on the row, so a claim that
// committed beside the opening is not missed.
func (s *Snapshot) restore() {
	i := &s.Intent
	if !s.Found || s.Opened.IsZero() || i.State.Terminal() || i.LedgerEpoch >= s.Epoch ||
		i.LedgerEpoch == 0 && !i.CreatedAt.Before(s.Opened.Add(s.Horizon)) {
		return
	}
	i.ProbeFirst = true
	i.LastPossibleSend = later(i.LastPossibleSend, s.Opened.Add(s.FenceTerm))
}

// restored makes the first step one from the row as it was read, so that what [Snapshot.restore] added is written with it.
func (c *Change) restored(read Intent) {
	if len(c.Steps) > 0 {
		c.Steps[0].From.ProbeFirst, c.Steps[0].From.LastPossibleSend = read.ProbeFirst, read.LastPossibleSend
	}
}

// learn gives an intent of an earlier life what a stamp would have left with it: the weakest reading of the sheets, and a last possible
// send that no fence of that life outlives.
func (m ProbeFence) learn(s *Snapshot, to *Intent) {
	if !to.ProbeFirst {
		return
	}
	if m.Sheet.Kind != "" {
		to.Sheet = StampSheet(m.Sheet).weaker(to.Sheet)
	}
	if !s.Opened.IsZero() {
		to.LastPossibleSend = later(to.LastPossibleSend, s.Opened.Add(m.FenceTerm))
	}
}

// firstPossible is the earliest time at which the effect may have been made. A claim that was made again after a restore may have been
// made first as long before as callers retry.
func (s *Snapshot) firstPossible(i Intent) time.Time {
	switch {
	case !i.FirstSentAt.IsZero() || !i.ProbeFirst:
		return i.FirstSentAt
	case !s.Opened.IsZero() && !i.CreatedAt.Before(s.Opened):
		return i.CreatedAt.Add(-s.Horizon)
	}
	return i.CreatedAt
}

// Finished is the move of a caller that finished what it had recorded: a commit, or, where a new epoch was opened meanwhile, late evidence, by
// which the next look commits it. It is for backends.
func Finished(s Snapshot, result channel.Evidence) Move {
	i := s.Intent
	if s.Found && i.LedgerEpoch != s.Epoch && i.State == StateDispatched {
		return Late{Key: i.Key, Fence: i.Fence(), Attempt: i.Attempts, Outcome: LateSent, Evidence: result}
	}
	return Commit{Fence: i.Fence(), Evidence: result, Established: BySend}
}

// NeedsStoredToken reports whether the sheet says that only what was stored of a token finds, or repeats, its effect: the token cannot be
// made again from the intent.
func (s StampedSheet) NeedsStoredToken() bool { return s.Token != channel.TokenDerived }

// TokenLost reports whether an absence of this intent proves nothing, because an earlier life of the ledger may have sent it under a token
// that is lost: none is stored, or what killed those that are (tokenDead) may be the lost one.
func (i Intent) TokenLost(stored int, tokenDead bool) bool {
	return i.ProbeFirst && i.Sheet.NeedsStoredToken() && !i.Sheet.FindsWithoutToken && (tokenDead || stored == 0)
}

func (s *Snapshot) tokenLost(dead bool) bool { return s.Intent.TokenLost(len(s.Tokens), dead) }

// noToken reports whether there are no stored bytes to send again where an earlier life may have sent some.
func (s *Snapshot) noToken() bool {
	return s.Intent.ProbeFirst && s.Intent.Sheet.NeedsStoredToken() && len(s.Tokens) == 0
}

// deathUnproven reports whether the death of the stored tokens leaves open what became of the effect: an earlier life may have made
// further ones. The time rules then count.
func (s *Snapshot) deathUnproven() bool {
	return s.Intent.ProbeFirst && s.Intent.Sheet.NeedsStoredToken()
}

// laterTokenLost reports whether versions that an earlier life made after the stored ones may be lost: a further one could then take effect
// beside them. An absence that was found by content leaves none.
func (s *Snapshot) laterTokenLost(sheet StampedSheet) bool {
	return len(s.Tokens) > 0 && s.Tokens[0].MadeAt.Before(s.Opened) && sheet.NeedsStoredToken() &&
		(!sheet.FindsWithoutToken || slices.Contains(s.Intent.Doubts, earlierLife))
}
