package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func inLane(i *ledger.Intent) { i.Lane, i.LanePosition = "ann", 1 }

func TestMoveAfterLateEvidenceKeepsTheQueueRow(t *testing.T) {
	late := func(s *shelf) ledger.Late {
		return ledger.Late{Key: s.row.Key, Fence: fence.Fence{Epoch: 1, Number: 1, Owner: worker}, Attempt: 9, Outcome: ledger.LateNotSent}
	}
	s := newShelf().fenced(t)
	s.must(t, late(s))
	s.must(t, ledger.PutToken{Fence: s.row.Fence(), Token: channel.Token{Version: 1}})
	if s.phase != ledger.PhaseLook {
		t.Errorf("a token written after late evidence left the queue row of a live intent in phase %q", s.phase)
	}
	s = newShelf().doubted(t)
	s.must(t, ledger.RequestCancel{By: "ann"})
	s.must(t, late(s))
	s.must(t, ledger.RequestCancel{By: "ann"})
	if s.phase != ledger.PhaseSend {
		t.Errorf("a second cancel after late evidence left the queue row of a live intent in phase %q", s.phase)
	}
}

func TestLateNotSentClearsItsOwnAttemptOnly(t *testing.T) {
	for name, c := range map[string]struct {
		late  ledger.Late
		clear bool
	}{
		"its own":              {ledger.Late{Attempt: 1, Outcome: ledger.LateNotSent, Fence: fence.Fence{Epoch: 1}}, true},
		"another attempt's":    {ledger.Late{Attempt: 2, Outcome: ledger.LateNotSent, Fence: fence.Fence{Epoch: 1}}, false},
		"another epoch's":      {ledger.Late{Attempt: 1, Outcome: ledger.LateNotSent}, false},
		"an unheard-of answer": {ledger.Late{Attempt: 1, Outcome: "perhaps", Fence: fence.Fence{Epoch: 1}}, false},
	} {
		for state, s := range map[string]*shelf{
			"doubt": newShelf().doubted(t), "stamp": newShelf().stamped(t, strong()), "stamp under a probing fence": newShelf().stamped(t, strong()).probing(t),
		} {
			c.late.Key = s.row.Key
			s.must(t, c.late)
			if s.row.State == ledger.StateIntent {
				s.must(t, fenceMove())
			} else {
				s.must(t, ledger.RequestCancel{By: "ann"})
			}
			if s.row.InDoubt() == c.clear {
				t.Errorf("late evidence of %s, row with a %s: in doubt is %v", name, state, s.row.InDoubt())
			}
			if !s.used["late-0"] {
				t.Errorf("late evidence of %s, row with a %s: it will be read again and again", name, state)
			}
		}
	}
}

func TestLateSentCommitsWhoeverMovesNext(t *testing.T) {
	for _, sit := range situations() {
		s := sit.make(t)
		if !s.found || s.row.State.Terminal() {
			continue
		}
		number := s.row.FenceNumber
		s.must(t, ledger.Late{Key: s.row.Key, Fence: fence.Fence{Epoch: 1, Number: number, Owner: worker}, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-9")})
		if s.due.After(s.now) {
			t.Errorf("%s: nobody looks before %s", sit.name, s.due)
		}
		r, err := s.move(ledger.RequestCancel{By: "ann"})
		if err != nil || r.Applied {
			t.Errorf("%s: the move after late evidence: applied %v, %v", sit.name, r.Applied, err)
		}
		s.wantState(t, ledger.StateCommitted)
		if ledger.EvidenceID(s.row.Evidence) != "m-9" || s.row.Established != ledger.ByLate || s.row.FenceNumber <= number {
			t.Errorf("%s: committed as %s by %s under number %d", sit.name, s.row.Evidence, s.row.Established, s.row.FenceNumber)
		}
		if n := len(s.receipts); n == 0 || s.receipts[n-1].Outcome != "committed" || s.phase != ledger.PhaseDone {
			t.Errorf("%s: %d receipts, queue phase %q", sit.name, n, s.phase)
		}
	}
}

func TestLateSentThatAnotherIntentHasIsHeld(t *testing.T) {
	for name, s := range map[string]*shelf{"intent": newShelf().doubted(t), "dispatched": newShelf().stamped(t, strong())} {
		s.taken["m-1"] = true
		old := s.row.Fence()
		s.must(t, ledger.Late{Key: s.row.Key, Fence: old, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-1")})
		s.must(t, ledger.RequestCancel{By: "ann"})
		s.wantState(t, ledger.StateDispatched)
		if !s.row.Held() || s.row.FenceNumber == old.Number || !s.row.InDoubt() {
			t.Errorf("%s: a second claimant of evidence is %+v, want held", name, s.row)
		}
	}
}

func TestCommitKeepsItsEvidenceWhenLateEvidenceCameFirst(t *testing.T) {
	for id, two := range map[string]bool{"m-2": true, "m-1": false} {
		s := newShelf().doubted(t)
		s.must(t, fenceMove())
		s.must(t, stampMove(s.row.Fence(), forEver()))
		s.must(t, ledger.Late{Key: s.row.Key, Fence: fence.Fence{Epoch: 1, Number: 1, Owner: "old"}, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-1")})
		r := s.must(t, ledger.Commit{Fence: s.row.Fence(), Evidence: evidence(id), Established: ledger.BySend})
		s.wantState(t, ledger.StateCommitted)
		if ledger.EvidenceID(s.row.Evidence) != "m-1" {
			t.Errorf("committed with %s, want the late evidence", s.row.Evidence)
		}
		if got := ledger.EvidenceID(s.row.LateEvidence) == id; got != two {
			t.Errorf("evidence %s is kept beside: %v (%s), want %v", id, got, s.row.LateEvidence, two)
		}
		if (r.Alarm != "") != two || (len(s.late) == 2) != two {
			t.Errorf("evidence %s: alarm %q, %d pieces of late evidence", id, r.Alarm, len(s.late))
		}
	}
}

func TestRestoredIntentIsNeverAbandonedAsNeverSent(t *testing.T) {
	restored := func(i *ledger.Intent) { i.ProbeFirst = true }
	for name, end := range map[string]func(s *shelf) error{
		"cancel":          func(s *shelf) error { _, err := s.move(ledger.RequestCancel{By: "ann"}); return err },
		"run over":        func(s *shelf) error { s.runOver = true; _, err := s.move(fenceMove()); return err },
		"expired":         func(s *shelf) error { s.row.ExpiresAt = s.now; _, err := s.move(fenceMove()); return err },
		"ceiling":         func(s *shelf) error { m := fenceMove(); m.AttemptCeiling = 0; _, err := s.move(m); return err },
		"approval wanted": func(s *shelf) error { m := fenceMove(); m.ApprovalRequired = true; _, err := s.move(m); return err },
		"abandon": func(s *shelf) error {
			s.must(t, probeMove())
			_, err := s.move(ledger.Abandon{Fence: s.row.Fence(), As: ledger.NeverSent})
			wantRule(t, err, "cancel-despite-doubt")
			return nil
		},
		"cancel, then reopen": func(s *shelf) error {
			s.must(t, probeMove())
			s.must(t, ledger.RequestCancel{By: "ann"})
			_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofNoStamp})
			wantRule(t, err, "cancel-despite-doubt")
			return nil
		},
	} {
		s := newShelf(restored)
		if err := end(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.row.State == ledger.StateAbandoned {
			t.Errorf("%s: abandoned as %s, though an earlier life of the ledger may have sent it", name, s.row.AbandonedAs)
		}
	}
}

func TestFenceGivenBackIsNobodys(t *testing.T) {
	s := newShelf().stamped(t, strong())
	s.must(t, ledger.Ambiguous{Fence: s.row.Fence(), Look: time.Second})
	for _, m := range []ledger.Move{
		ledger.Commit{Fence: s.row.Fence(), Evidence: evidence("x"), Established: ledger.ByProbe},
		ledger.Hold{Fence: s.row.Fence()}, ledger.Abandon{Fence: s.row.Fence(), As: ledger.Unknown, Policy: true},
		ledger.Resolve{Fence: s.row.Fence(), As: ledger.DecideSent, By: "ann", Reason: "sure"},
	} {
		if _, err := s.move(m); err == nil {
			t.Errorf("%T was written under a fence that nobody holds", m)
		}
	}
	s.wantState(t, ledger.StateDispatched)
	_, err := s.move(ledger.ProbeFence{TTL: time.Minute})
	wantRule(t, err, "owner")
	_, err = newShelf().move(ledger.Fence{TTL: time.Minute})
	wantRule(t, err, "owner")
}

func TestAcceptedIsNotSentAgain(t *testing.T) {
	s := newShelf().doubted(t).probing(t) // an earlier attempt is in doubt; there is no stamp
	s.must(t, ledger.Probed{Fence: s.row.Fence(), Finding: channel.FindingAccepted, Evidence: evidence("queue-1"), ProbeBegan: s.now, Look: time.Second})
	s.probing(t)
	for _, p := range []ledger.Proof{ledger.ProofNoStamp, ledger.ProofNotSent, ledger.ProofReplaySafe, ledger.ProofResend} {
		_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: p, Policy: true})
		wantRule(t, err, "replay-accepted")
	}
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now, TokenDead: true})
	s.wantState(t, ledger.StateIntent)
	if s.row.InDoubt() {
		t.Error("absent for good, and still in doubt")
	}
}

func TestWhatMustNotBeSentAndMayHaveBeenIsLeftForProbing(t *testing.T) {
	for name, stop := range map[string]func(*shelf){
		"cancelled": func(s *shelf) { s.must(t, ledger.RequestCancel{By: "ann"}) },
		"expired":   func(s *shelf) { s.row.ExpiresAt = s.now },
		"run over":  func(s *shelf) { s.runOver = true },
	} {
		s := newShelf().doubted(t)
		s.must(t, fenceMove())
		s.must(t, stampMove(s.row.Fence(), forEver()))
		stop(s)
		r := s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofNotSent})
		s.wantState(t, ledger.StateDispatched)
		if r.Applied || s.row.Stamped() || !s.row.InDoubt() || s.row.FenceOwner != "" || s.phase != ledger.PhaseLook {
			t.Errorf("%s: the second attempt was not sent; the row is %+v", name, s.row)
		}
		s.must(t, probeMove())
		for _, p := range []ledger.Proof{ledger.ProofReplaySafe, ledger.ProofResend, ledger.ProofNoStamp} {
			_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: p, Policy: true})
			wantRule(t, err, "cancel-despite-doubt")
		}
		s.now = s.row.AbsenceCountsFrom(0).Add(time.Second)
		s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now})
		s.wantState(t, ledger.StateAbandoned)
		if s.row.AbandonedAs != ledger.NeverSent {
			t.Errorf("%s: absent for good, ended as %s", name, s.row.AbandonedAs)
		}
	}
}

func TestAcceptedByProbeFreesTheLane(t *testing.T) {
	sheet := strong()
	sheet.AcceptedFreesLane = true
	s := newShelf(inLane).stamped(t, sheet).probing(t)
	accepted := ledger.Probed{Finding: channel.FindingAccepted, ProbeBegan: s.now, Look: time.Second}
	accepted.Fence = s.row.Fence()
	s.must(t, accepted)
	if s.turns != 1 {
		t.Error("the lane did not move on when its head was found to be accepted")
	}
	s.probing(t)
	accepted.Fence = s.row.Fence()
	s.must(t, accepted)
	s.probing(t)
	s.must(t, ledger.Commit{Fence: s.row.Fence(), Evidence: evidence("m-1"), Established: ledger.ByProbe})
	if s.turns != 1 || !s.row.LaneTurnEnded {
		t.Errorf("the lane moved on %d times, want once", s.turns)
	}
}

func TestCancelOfAWaitingIntentInDoubtIsObeyedAtOnce(t *testing.T) {
	s := newShelf().stamped(t, forEver())
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, After: time.Hour})
	s.must(t, ledger.RequestCancel{By: "ann"})
	if r := s.must(t, fenceMove()); r.Applied || !s.row.Probing {
		t.Errorf("the fence of a cancelled intent in doubt gave %+v", s.row)
	}
}

func TestLateNotSentDoesNotHurryARetry(t *testing.T) {
	s := newShelf().stamped(t, forEver())
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, After: time.Hour})
	due := s.row.DueAt
	s.must(t, ledger.Late{Key: s.row.Key, Fence: fence.Fence{Epoch: 1, Number: 1}, Attempt: 1, Outcome: ledger.LateNotSent})
	if !s.row.DueAt.Equal(due) || !s.due.Equal(due) {
		t.Errorf("due %s (queue %s), want %s as the outside system asked", s.row.DueAt, s.due, due)
	}
}

func TestApprovalOfAShadowIntentIsThatOfTheRealKey(t *testing.T) {
	s := newShelf()
	digest, err := ledger.ApprovalDigest(s.row.Channel, s.row.EffectKey, s.row.PayloadDigest)
	if err != nil {
		t.Fatal(err)
	}
	s.row.EffectKey = ledger.ShadowPrefix + s.row.EffectKey
	s.row.Approval = &ledger.Approval{By: "ann", Reference: "t-1", Digest: digest}
	s.must(t, fenceMove())
	s.wantState(t, ledger.StateDispatched)
	_, err = s.move(stampMove(s.row.Fence(), strong()))
	wantRule(t, err, "shadow")
}

func TestTokenLifeIsTheShortestThatCounts(t *testing.T) {
	forEver := func() channel.Sheet { s := forEver(); s.SettleTime = 0; return s }
	strong := func() channel.Sheet { s := strong(); s.SettleTime = 0; return s }
	short := forEver()
	short.Replay, short.TokenLife = channel.ReplayWithinLife, channel.Duration(30*time.Second)
	for name, c := range map[string]struct {
		first, second channel.Sheet
		own           time.Duration
	}{
		"the channel's":                {first: short, second: short},
		"the first sheet's":            {first: short, second: forEver()},
		"the first sheet's, then none": {first: short, second: strong()},
		"the token's own":              {first: forEver(), second: forEver(), own: 30 * time.Second},
	} {
		s := newShelf().fenced(t)
		m := stampMove(s.row.Fence(), c.first)
		m.Token.Life = c.own
		s.must(t, m)
		s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, Margin: time.Second})
		s.now = s.now.Add(25 * time.Second)
		s.must(t, fenceMove())
		m = stampMove(s.row.Fence(), c.second)
		r := s.must(t, m)
		if want := 4 * time.Second; r.Remaining != want { // 30 s − 25 s − the margin
			t.Errorf("%s: %s are left for the second send, want %s", name, r.Remaining, want)
		}
		s.now = s.now.Add(5 * time.Second)
		_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, Margin: time.Second})
		wantRule(t, err, "token-life")
	}
}

func TestReplayArrivesWithinTheTokensLife(t *testing.T) {
	sheet := forEver() // settles within ten seconds
	sheet.Replay, sheet.TokenLife = channel.ReplayWithinLife, channel.Duration(60*time.Second)
	s := newShelf().stamped(t, sheet)
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, Margin: time.Second})
	s.now = s.now.Add(45 * time.Second)
	s.must(t, fenceMove())
	r := s.must(t, stampMove(s.row.Fence(), sheet))
	if want := 4 * time.Second; r.Remaining != want { // 60 s − 45 s − settle time − margin
		t.Errorf("%s are left for the replay, want %s", r.Remaining, want)
	}
	s.now = s.now.Add(5 * time.Second)
	_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe, Margin: time.Second})
	wantRule(t, err, "token-life")
}

func TestPersonWhoLetsItGoAgainIsNotWhoEndedIt(t *testing.T) {
	s := newShelf().stamped(t, strong()).probing(t)
	s.must(t, ledger.Resolve{Fence: s.row.Fence(), As: ledger.DecideRetry, By: "ann", Reason: "not in the mailbox"})
	s.must(t, fenceMove())
	s.must(t, stampMove(s.row.Fence(), strong()))
	s.must(t, ledger.Commit{Fence: s.row.Fence(), Evidence: evidence("m-1"), Established: ledger.BySend})
	if s.row.By != "" || s.receipts[len(s.receipts)-1].By != "" {
		t.Errorf("the receipt of a delivery says that %q decided it", s.row.By)
	}
	if last := s.log[len(s.log)-3]; last.Outcome != ledger.LogResolved || !strings.Contains(string(last.Detail), "ann") {
		t.Errorf("the log does not tell who let it go again: %s", last.Detail)
	}
}

// A call that gave up early leaves the adapter free to send until the not-after, whatever a person sees before it.
func TestRetryOfAPersonWaitsUntilTheAttemptBeforeItCanBeginNoMore(t *testing.T) {
	s := newShelf().stamped(t, strong())
	s.must(t, ledger.Ambiguous{Fence: s.row.Fence(), Reason: "the adapter's connection broke"})
	s.must(t, ledger.ProbeFence{Owner: "ann", TTL: time.Minute, Number: s.row.FenceNumber, Person: true})
	notAfter := s.row.LastPossibleSend
	if !notAfter.After(s.now) {
		t.Fatal("the attempt is over already")
	}
	s.must(t, ledger.Resolve{Fence: s.row.Fence(), As: ledger.DecideRetry, By: "ann", Reason: "not in the mailbox"})
	_, err := s.move(fenceMove())
	wantRule(t, err, "not-due")
	s.now = notAfter
	// The zombie answers before that: the effect is there, and does not go again.
	s.must(t, ledger.Late{Key: s.row.Key, Fence: fence.Fence{Epoch: 1, Number: 1, Owner: "zombie"}, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-1")})
	if r, err := s.move(fenceMove()); err != nil || r.Applied {
		t.Fatalf("it was let go again: %+v, %v", r, err)
	}
	s.wantState(t, ledger.StateCommitted)
}

func TestPersonLetsAQuarantinedIntentGoOnceMore(t *testing.T) {
	m := fenceMove()
	m.StartCeiling, m.AttemptCeiling = 1, 1
	retry := func(s *shelf) {
		s.must(t, ledger.ProbeFence{Owner: "ann", TTL: time.Minute, Person: true})
		s.must(t, ledger.Resolve{Fence: s.row.Fence(), As: ledger.DecideRetry, By: "ann", Reason: "the host was bad"})
	}
	s := newShelf().fenced(t)
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofNoStamp})
	if r := s.must(t, m); r.Applied || !s.row.Held() {
		t.Fatalf("past the ceiling of starts: %+v", s.row)
	}
	retry(s)
	if r := s.must(t, m); !r.Applied || s.row.Probing || s.row.By != "" {
		t.Fatalf("let go by a person: %+v", s.row)
	}
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofNoStamp})
	if r := s.must(t, m); r.Applied || !s.row.Held() {
		t.Fatalf("the ceiling is gone for good: %+v", s.row)
	}
	s = newShelf().stamped(t, strong()).probing(t)
	retry(s)
	if r := s.must(t, m); !r.Applied || s.row.State != ledger.StateDispatched || s.row.Probing {
		t.Fatalf("past the ceiling of attempts, let go by a person: %+v", s.row)
	}
	s = newShelf().stamped(t, strong()).probing(t)
	retry(s)
	s.must(t, ledger.RequestCancel{By: "bob"})
	if s.row.By != "" || s.row.AbandonedAs != ledger.NeverSent {
		t.Errorf("cancelled by another: %q, %s", s.row.By, s.row.AbandonedAs)
	}
}

func TestAbsenceCountsOnlyAfterSettleTime(t *testing.T) {
	for name, c := range map[string]struct {
		offset time.Duration // of the probe's beginning, from when an absence counts
		rule   string
	}{
		"begun before":        {-time.Microsecond, "no-settle-time"},
		"begun at it":         {0, "no-settle-time"},
		"begun after":         {time.Microsecond, ""},
		"begun in the future": {2 * time.Hour, "no-settle-time"},
	} {
		s := newShelf().stamped(t, strong()).probing(t)
		counts := s.row.LastPossibleSend.Add(10*time.Second + fence.DefaultClockAllowance)
		s.now = counts.Add(time.Hour)
		_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: counts.Add(c.offset)})
		if c.rule != "" {
			wantRule(t, err, c.rule)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeartbeatShortensNoWaitForAnAbsence(t *testing.T) {
	blind := strong()
	blind.Probe, blind.NegativeProof = channel.ProbeNone, false
	for name, c := range map[string]struct {
		make func() *shelf
		err  bool
	}{
		"unstamped":                 {func() *shelf { return newShelf().fenced(t) }, false},
		"replay-safe":               {func() *shelf { return newShelf().stamped(t, forEver()) }, false},
		"the probe finds it":        {func() *shelf { return newShelf().stamped(t, strong()) }, false},
		"stamped and nobody to ask": {func() *shelf { return newShelf().stamped(t, blind) }, true},
	} {
		s := c.make()
		m := probeMove()
		m.HeartbeatTimeout = 10 * time.Second
		if _, err := s.move(m); err == nil {
			t.Errorf("%s: taken though its owner was never seen", name)
		}
		s.seen = s.now
		s.now = s.now.Add(11 * time.Second)
		if _, err := s.move(m); (err != nil) != c.err {
			t.Errorf("%s: %v", name, err)
		}
		if s.row.Stamped() && !c.err {
			_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: s.now})
			wantRule(t, err, "no-settle-time")
		}
	}
}

func TestAnAnswerThatComesAfterAProbeFoundTheSameIsNoAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		attempt int // that answers
		earlier bool
		id      string
		alarm   bool
	}{
		"of the only attempt":          {attempt: 1, id: "m-1"},
		"with another id":              {attempt: 1, id: "m-2", alarm: true},
		"without an id":                {attempt: 1, alarm: true},
		"after there was a second try": {attempt: 1, id: "m-1", earlier: true, alarm: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf().stamped(t, strong())
			old := s.row.Fence()
			s.expired().probing(t)
			s.must(t, ledger.Commit{Fence: s.row.Fence(), Evidence: evidence("m-1"), Established: ledger.ByProbe})
			if c.earlier {
				s.row.Attempts = 2
			}
			r := s.must(t, ledger.Late{Key: s.row.Key, Fence: old, Attempt: c.attempt, Outcome: ledger.LateSent, Evidence: evidence(c.id)})
			if (r.Alarm != "") != c.alarm || (len(s.row.LateEvidence) > 0) != c.alarm {
				t.Errorf("alarm %q, late evidence %s", r.Alarm, s.row.LateEvidence)
			}
		})
	}
}

// TestAFurtherTokenNeedsNoDoubtOfItsOwnAttempt: the adapter that wants another version instead of sending has sent nothing.
func TestAFurtherTokenNeedsNoDoubtOfItsOwnAttempt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stamped := ledger.Intent{Key: ledger.Key{"r", "test:x"}, State: ledger.StateDispatched, Kind: "test", Channel: "test", FenceOwner: "us", FenceNumber: 1,
		FenceExpiresAt: now.Add(time.Minute), LedgerEpoch: 1, Starts: 1, Attempts: 1, SendStartedAt: now, FirstSentAt: now}
	s := ledger.Snapshot{Key: stamped.Key, Found: true, Intent: stamped, Now: now, Epoch: 1, Tokens: []channel.Token{{Version: 1, Data: []byte("a")}}}
	put := ledger.PutToken{Fence: stamped.Fence(), Token: channel.Token{Version: 2, Data: []byte("b")}}
	if _, err := ledger.Apply(s, put); err == nil {
		t.Fatal("a further version was stored while the first may still take effect")
	}
	put.NotSent = true
	if c, err := ledger.Apply(s, put); err != nil || c.NewToken == nil {
		t.Fatalf("got %v, %+v; want the version stored", err, c.NewToken)
	}
	s.Intent.Doubts = []int{1}
	s.Intent.Attempts = 2
	if _, err := ledger.Apply(s, put); err == nil {
		t.Fatal("a further version was stored although an earlier attempt may have taken effect")
	}
}
