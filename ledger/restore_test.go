package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

const day = 24 * time.Hour

// allocated is a channel whose tokens cannot be made again, and whose probe needs them.
func allocated() channel.Sheet {
	s := strong()
	s.Token = channel.TokenAllocated
	return s
}

// byContent is one whose probe does not need them.
func byContent() channel.Sheet {
	s := allocated()
	s.FindsWithoutToken = true
	return s
}

// reopened is the shelf in a new epoch, opened now, over what was there: the row is marked by nobody.
func (s *shelf) reopened(channel.Sheet) *shelf {
	s.now = s.now.Add(time.Minute)
	s.epoch++
	s.opened, s.horizon, s.term = s.now, day, 5*time.Minute
	s.now = s.now.Add(time.Second)
	return s
}

// learned takes the row by a probing fence that brings the channel's sheet.
func (s *shelf) learned(t *testing.T, sheet channel.Sheet) *shelf {
	t.Helper()
	if s.row.FenceOwner != "" {
		s.expired()
	}
	m := probeMove()
	m.Sheet, m.FenceTerm = sheet, time.Minute
	s.must(t, m)
	return s
}

// absent is the absence that a probe proves which begins as soon as it counts.
func (s *shelf) absent() ledger.Reopen {
	s.now = s.row.AbsenceCountsFrom(0).Add(time.Microsecond)
	return ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now}
}

func TestInANewEpochEveryRowThatNobodyTouchedIsProbedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		made   func(t *testing.T) *shelf
		probed bool
	}{
		"waiting":         {func(t *testing.T) *shelf { return newShelf().reopened(strong()) }, true},
		"reopened before": {func(t *testing.T) *shelf { return newShelf().doubted(t).reopened(strong()) }, true},
		"claimed until horizon": {func(*testing.T) *shelf {
			s := newShelf().reopened(strong())
			s.row.CreatedAt = s.opened.Add(day - 1)
			return s
		}, true},
		"claimed after horizon": {func(*testing.T) *shelf {
			s := newShelf().reopened(strong())
			s.row.CreatedAt = s.opened.Add(day)
			return s
		}, false},
		"in the first epoch": {func(*testing.T) *shelf { s := newShelf(); s.horizon = day; return s }, false},
		"touched since, resolved": {func(t *testing.T) *shelf {
			s := newShelf().reopened(strong()).learned(t, strong())
			s.must(t, s.absent())
			return s
		}, false},
	} {
		s := c.made(t)
		starts := s.row.Starts
		r := s.must(t, fenceMove())
		if r.Applied == c.probed || s.row.ProbeFirst != c.probed || (s.row.Starts == starts) != c.probed {
			t.Errorf("%s: fenced for a send %v, probe first %v", name, r.Applied, s.row.ProbeFirst)
		}
		if earliest := s.opened.Add(s.term); c.probed && s.row.LastPossibleSend.Before(earliest) {
			t.Errorf("%s: a fence of the life before may send until %s, the row says %s", name, earliest, s.row.LastPossibleSend)
		}
	}
}

func TestACancelInANewEpochDoesNotCallItNeverSent(t *testing.T) {
	s := newShelf().reopened(strong())
	s.must(t, ledger.RequestCancel{By: "ann"})
	s.wantState(t, ledger.StateIntent)
	s.must(t, fenceMove())
	s.learned(t, strong())
	s.must(t, s.absent()) // and only now
	s.wantState(t, ledger.StateAbandoned)
	if s.row.AbandonedAs != ledger.NeverSent {
		t.Errorf("it ended as %s", s.row.AbandonedAs)
	}
}

func TestFencesOfTheEpochBeforeMatchNothing(t *testing.T) {
	for name, m := range map[string]func(f fence.Fence) ledger.Move{
		"stamp":  func(f fence.Fence) ledger.Move { return stampMove(f, strong()) },
		"token":  func(f fence.Fence) ledger.Move { return ledger.PutToken{Fence: f, Token: channel.Token{Version: 1}} },
		"reopen": func(f fence.Fence) ledger.Move { return ledger.Reopen{Fence: f, Proof: ledger.ProofNoStamp} },
	} {
		s := newShelf().fenced(t).reopened(strong())
		if _, err := s.move(m(s.row.Fence())); !errors.Is(err, ledger.ErrFenceLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newShelf().stamped(t, strong()).reopened(strong())
	old := s.row.Fence()
	if _, err := s.move(ledger.Commit{Fence: old, Evidence: evidence("m-1"), Established: ledger.BySend}); !errors.Is(err, ledger.ErrFenceLost) {
		t.Errorf("commit: %v", err)
	}
	s.must(t, ledger.Late{Key: s.row.Key, Fence: old, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-1")})
	s.learned(t, strong())
	s.wantState(t, ledger.StateCommitted)
	if ledger.EvidenceID(s.row.Evidence) != "m-1" {
		t.Errorf("committed with %s", s.row.Evidence)
	}
}

func TestAfterARestoreAnAbsenceWaitsForEveryFenceOfTheLifeBefore(t *testing.T) {
	for name, c := range map[string]struct{ stated, configured, want time.Duration }{
		"as stated":     {5 * time.Minute, time.Minute, 5 * time.Minute},
		"as configured": {0, 10 * time.Minute, 10 * time.Minute},
	} {
		s := newShelf().reopened(strong())
		s.term = c.stated
		m := probeMove()
		m.Sheet, m.FenceTerm = strong(), c.configured
		s.must(t, m)
		counts := s.opened.Add(c.want + strong().SettleTime.D() + fence.DefaultClockAllowance)
		if got := s.row.AbsenceCountsFrom(0); !got.Equal(counts) {
			t.Fatalf("%s: an absence counts from %s, want %s", name, got, counts)
		}
		s.now = counts
		_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now})
		wantRule(t, err, "no-settle-time")
		s.must(t, s.absent())
		s.wantState(t, ledger.StateIntent)
		if s.row.InDoubt() {
			t.Errorf("%s: doubt is left: %+v", name, s.row)
		}
		s.stamped(t, strong())
	}
}

func TestALostTokenIsNeverReplaced(t *testing.T) {
	stored := func(t *testing.T, sheet channel.Sheet) *shelf {
		return newShelf().stamped(t, sheet).reopened(sheet).learned(t, sheet)
	}
	bare := func(t *testing.T, sheet channel.Sheet) *shelf { return newShelf().reopened(sheet).learned(t, sheet) }
	derived := strong()
	derived.Token = channel.TokenDerived
	for name, c := range map[string]struct {
		shelf *shelf
		dead  bool
		rule  string // empty: it may go again
	}{
		"none stored":                         {bare(t, allocated()), false, "restore-token-lost"},
		"none stored, said to be dead":        {bare(t, allocated()), true, "restore-token-lost"},
		"stored":                              {stored(t, allocated()), false, ""},
		"stored, dead by another transaction": {stored(t, allocated()), true, "restore-token-lost"},
		"none stored, searched by content":    {bare(t, byContent()), false, ""},
		"stored, dead, searched by content":   {stored(t, byContent()), true, ""},
		"derived, none stored":                {bare(t, derived), false, ""},
		"derived, dead: whichever it was":     {bare(t, derived), true, ""},
		"unknown sheet counts as the weakest": {newShelf().reopened(strong()).learned(t, channel.Sheet{}), false, "restore-token-lost"},
		"stamped under a sheet that did not say": {func() *shelf {
			s := newShelf().stamped(t, derived)
			s.row.Sheet.Token = ""
			s.tokens = nil
			return s.reopened(derived).learned(t, derived)
		}(), false, "restore-token-lost"},
	} {
		m := c.shelf.absent()
		m.TokenDead = c.dead
		_, err := c.shelf.move(m)
		if c.rule != "" {
			var refused *ledger.RefusedError
			if !errors.As(err, &refused) || refused.Rule != c.rule {
				t.Errorf("%s: %v, want a refusal by %s", name, err, c.rule)
			}
			continue
		}
		if err != nil || c.shelf.row.State != ledger.StateIntent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeathOfAStoredTokenDoesNotShortenTheWaitInANewEpoch(t *testing.T) {
	s := newShelf().stamped(t, byContent()).reopened(byContent()).learned(t, byContent())
	s.now = s.opened.Add(time.Second)
	_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now, TokenDead: true})
	wantRule(t, err, "no-settle-time")
}

func TestAFurtherVersionOfARestoredTokenIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		sheet channel.Sheet
		rule  string
	}{"allocated": {allocated(), "restore-token-lost"}, "searched by content": {byContent(), ""}} {
		s := newShelf().stamped(t, c.sheet).reopened(c.sheet).learned(t, c.sheet)
		s.must(t, s.absent())
		s.now = s.now.Add(time.Second)
		s.must(t, fenceMove())
		m := stampMove(s.row.Fence(), c.sheet)
		m.Token = nil
		s.must(t, m)
		_, err := s.move(ledger.PutToken{Fence: s.row.Fence(), Token: channel.Token{Version: 2, Data: []byte("key 2")}, NotSent: true})
		if c.rule == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.rule != "" {
			wantRule(t, err, c.rule)
			// The engine then leaves it to a person, with its stamp.
			s.must(t, ledger.Hold{Fence: s.row.Fence(), Reason: "look", Look: time.Hour})
		}
	}
}

func TestInANewEpochTheSameBytesGoAgainOnlyWhereTheyAreKnown(t *testing.T) {
	sheet := func(token channel.TokenKind, replay channel.Replay) channel.Sheet {
		return channel.Sheet{Kind: "mail", Token: token, Replay: replay, TokenLife: channel.Duration(time.Hour), Probe: channel.ProbeNone}
	}
	bare := func(s channel.Sheet) *shelf { return newShelf().reopened(s).learned(t, s) }
	for name, c := range map[string]struct {
		shelf *shelf
		proof ledger.Proof
		rule  string
	}{
		"derived, for ever":              {bare(sheet(channel.TokenDerived, channel.ReplayForEver)), ledger.ProofReplaySafe, ""},
		"derived, within a life":         {bare(sheet(channel.TokenDerived, channel.ReplayWithinLife)), ledger.ProofReplaySafe, "token-life"},
		"allocated, for ever":            {bare(sheet(channel.TokenAllocated, channel.ReplayForEver)), ledger.ProofReplaySafe, "restore-token-lost"},
		"allocated, duplicates accepted": {bare(sheet(channel.TokenAllocated, channel.ReplayNever)), ledger.ProofResend, "restore-token-lost"},
		"derived, duplicates accepted":   {bare(sheet(channel.TokenDerived, channel.ReplayNever)), ledger.ProofResend, ""},
	} {
		_, err := c.shelf.move(ledger.Reopen{Fence: c.shelf.row.Fence(), Proof: c.proof, Policy: true})
		var refused *ledger.RefusedError
		switch {
		case c.rule != "" && (!errors.As(err, &refused) || refused.Rule != c.rule):
			t.Errorf("%s: %v, want a refusal by %s", name, err, c.rule)
		case c.rule == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.rule == "":
			// It goes again, and the doubt about the life before stays.
			if i := c.shelf.row; i.ProbeFirst || !slices.Equal(i.Doubts, []int{0}) {
				t.Errorf("%s: probe first %v, doubts %v", name, i.ProbeFirst, i.Doubts)
			}
			if r := c.shelf.must(t, fenceMove()); !r.Applied {
				t.Errorf("%s: it is probed for ever", name)
			}
			_, err := c.shelf.move(ledger.Abandon{Fence: c.shelf.row.Fence(), As: ledger.Refused})
			wantRule(t, err, "cancel-despite-doubt")
		}
	}
}

func TestAProbeMustReachBackToWhatAnEarlierLifeMaySent(t *testing.T) {
	sheet := strong()
	sheet.ProbeHorizon = channel.Duration(2 * time.Hour)
	for name, c := range map[string]struct {
		claimed, horizon time.Duration // before the opening; of the epoch
		counts           bool
	}{
		"claimed an hour before":                  {time.Hour, 0, true},
		"claimed three hours before":              {3 * time.Hour, 0, false},
		"claimed again, callers retry for a day":  {-time.Second, day, false},
		"claimed again, callers retry for a hour": {-time.Second, time.Hour, true},
	} {
		s := newShelf().reopened(sheet)
		s.horizon = c.horizon
		s.row.CreatedAt = s.opened.Add(-c.claimed)
		s.learned(t, sheet)
		_, err := s.move(s.absent())
		if c.counts && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !c.counts {
			var refused *ledger.RefusedError
			if !errors.As(err, &refused) || refused.Rule != "probe-horizon" {
				t.Errorf("%s: %v, want a refusal by probe-horizon", name, err)
			}
		}
	}
}

func TestWhatEndedInAnEarlierLifeStaysAsItIs(t *testing.T) {
	s := newShelf().stamped(t, strong())
	s.must(t, ledger.Abandon{Fence: s.row.Fence(), As: ledger.Unknown, Policy: true, Reason: "policy"})
	s.reopened(strong())
	s.must(t, ledger.Late{Key: s.row.Key, Fence: s.row.Fence(), Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-1")})
	if s.row.ProbeFirst || s.row.Outcome() != "abandoned, took effect later" || s.receipts[len(s.receipts)-1].Outcome != receipt.Late {
		t.Errorf("it is %+v", s.row)
	}
}
