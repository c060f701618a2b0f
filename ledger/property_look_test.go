package ledger_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// Take takes a probing fence, whatever was done with the last one.
func (s *sim) Take(t *rapid.T) {
	l := rapid.SampledFrom(s.lookers).Draw(t, "looker")
	m := probeMove()
	m.Person = rapid.Bool().Draw(t, "person")
	if rapid.Bool().Draw(t, "heartbeat") {
		s.seen, m.HeartbeatTimeout = s.now.Add(-time.Hour), time.Minute
	}
	r, err := s.move(m)
	if s.zombie(t, err) || !r.Applied {
		return
	}
	*l = looker{fence: r.Intent.Fence(), has: true}
}

// Look is the probe itself; what is concluded comes later.
func (s *sim) Look(t *rapid.T) {
	l := s.looker(t)
	l.looked, l.began, l.found = true, s.now, ""
	for _, f := range s.world.landed {
		l.found = s.world.id(f)
	}
}

func (s *sim) looker(t *rapid.T) *looker {
	var at []*looker
	for _, l := range s.lookers {
		if l.has {
			at = append(at, l)
		}
	}
	return rapid.SampledFrom(at).Draw(t, "looker")
}

func (s *sim) looking() bool {
	return slices.ContainsFunc(s.lookers, func(l *looker) bool { return l.has })
}

// Conclude writes whatever a reconciler may be tempted to write; the ledger has to refuse what is not proven.
func (s *sim) Conclude(t *rapid.T) {
	l := s.looker(t)
	f := l.fence
	blind := s.world.sheet.Probe == channel.ProbeNone
	moves := []ledger.Move{
		ledger.Reopen{Fence: f, Proof: ledger.ProofNoStamp},
		ledger.Reopen{Fence: f, Proof: ledger.ProofNotSent},
		ledger.Reopen{Fence: f, Proof: ledger.ProofReplaySafe, Margin: time.Second},
		ledger.Reopen{Fence: f, Proof: ledger.ProofResend, Policy: s.policy},
		ledger.Abandon{Fence: f, As: ledger.NeverSent, Reason: "a guess"},
		ledger.Abandon{Fence: f, As: ledger.Refused, Reason: "a guess", NotSent: true},
		ledger.Abandon{Fence: f, As: ledger.Unknown, Policy: oneIn(t, 12, "abandon")},
		ledger.Hold{Fence: f, Reason: "look", Look: time.Minute},
		ledger.Probed{Fence: f, Finding: channel.FindingUnknown, ProbeBegan: s.now, Look: time.Second},
	}
	if l.looked && !blind {
		if l.found != "" {
			moves = []ledger.Move{
				ledger.Commit{Fence: f, Evidence: evidence(l.found), Established: ledger.ByProbe},
				ledger.Probed{Fence: f, Finding: channel.FindingAccepted, Evidence: evidence(l.found), ProbeBegan: l.began, Look: time.Second},
			}
		} else {
			absent := ledger.Reopen{Fence: f, Proof: ledger.ProofAbsentForGood, ProbeBegan: l.began}
			moves = append(moves, absent, absent, absent, ledger.Probed{Fence: f, Finding: channel.FindingAbsentNow, ProbeBegan: l.began, Look: time.Second})
		}
	}
	_, err := s.move(rapid.SampledFrom(moves).Draw(t, "conclusion"))
	s.zombie(t, err)
}

// Person resolves, and knows: she has looked everywhere, after everything was over.
func (s *sim) Person(t *rapid.T) {
	l := s.looker(t)
	over := len(s.world.flights) == 0
	for _, w := range s.workers {
		over = over && (w.stage != "stamped" || !s.now.Before(w.notAfter))
	}
	decisions := []ledger.Decision{}
	switch {
	case s.world.effects > 0:
		decisions = append(decisions, ledger.DecideSent)
	case over:
		decisions = append(decisions, ledger.DecideNotSent, ledger.DecideRetry, ledger.DecideUnknown)
	}
	if len(decisions) == 0 {
		return // she does not know
	}
	_, err := s.move(ledger.Resolve{Fence: l.fence, As: rapid.SampledFrom(decisions).Draw(t, "decision"), By: "ann", Reason: "looked"})
	s.zombie(t, err)
}

// check is the account that the sim keeps, against the row.
func (s *sim) check(t *rapid.T) {
	i, b := s.row, s.before
	safe := s.world.sheet.Replay != channel.ReplayNever
	switch {
	case s.world.effects > 1 && !s.policy:
		t.Fatalf("%d effects of one intent (replay-safe: %v)", s.world.effects, safe)
	case i.State == ledger.StateAbandoned && (i.AbandonedAs == ledger.NeverSent || i.AbandonedAs == ledger.Refused) && s.world.effects+len(s.world.flights) > 0:
		t.Fatalf("abandoned as %s, and %d took effect, %d may yet", i.AbandonedAs, s.world.effects, len(s.world.flights))
	case i.State == ledger.StateCommitted && s.world.effects == 0:
		t.Fatal("committed, and nothing took effect")
	case i.FenceNumber < b.FenceNumber, i.Starts != s.starts, i.Attempts != s.stamps, i.LastPossibleSend.Before(b.LastPossibleSend):
		t.Fatalf("numbers: fence %d after %d, starts %d of %d, attempts %d of %d", i.FenceNumber, b.FenceNumber, i.Starts, s.starts, i.Attempts, s.stamps)
	case !b.FirstSentAt.IsZero() && !i.FirstSentAt.Equal(b.FirstSentAt):
		t.Fatal("the first send moved")
	case i.State == ledger.StateIntent && i.Stamped():
		t.Fatal("an intent with a stamp")
	}
	want := map[ledger.State]ledger.Phase{ledger.StateIntent: ledger.PhaseSend, ledger.StateDispatched: ledger.PhaseLook}[i.State]
	if s.phase != want {
		t.Fatalf("the queue has a %s row in phase %q", i.State, s.phase)
	}
	if !i.State.Terminal() {
		s.checkDoubt(t)
	}
	s.checkEvidence(t)
	s.before = i
}

// checkDoubt: whatever may have taken effect, or yet may, the row doubts.
func (s *sim) checkDoubt(t *rapid.T) {
	doubted := map[int]bool{}
	for _, a := range s.row.Doubts {
		doubted[a] = true
	}
	if s.row.Stamped() {
		doubted[s.row.Attempts] = true
	}
	for _, f := range append(append([]flight(nil), s.world.flights...), s.world.landed...) {
		if !doubted[f.attempt] {
			t.Fatalf("attempt %d took effect or may yet, and the row doubts only %v", f.attempt, doubted)
		}
	}
	for _, w := range s.workers {
		if w.stage == "stamped" && s.now.Before(w.notAfter) && !doubted[w.attempt] {
			t.Fatalf("attempt %d can still be sent, and the row doubts only %v", w.attempt, doubted)
		}
		if w.stage == "stamped" && s.row.LastPossibleSend.Before(w.notAfter) {
			t.Fatal("a worker may send after the last possible send")
		}
	}
}

// checkEvidence: nothing that was handed in is lost.
func (s *sim) checkEvidence(t *rapid.T) {
	kept := map[string]bool{ledger.EvidenceID(s.row.Evidence): true, ledger.EvidenceID(s.row.LateEvidence): true}
	for _, l := range s.late {
		kept[ledger.EvidenceID(l.Evidence)] = true
	}
	for _, id := range s.given {
		if !kept[id] {
			t.Fatalf("evidence %q was handed in and is nowhere", id)
		}
	}
}

// finish lets everything come to rest: whatever happened, the row can be brought to its end.
func (s *sim) finish(t *rapid.T) {
	s.workers = []*hand{{stage: "idle"}}
	for range 12 {
		s.now = s.now.Add(5 * time.Minute)
		s.world.forget(s.now)
		switch s.row.State {
		case ledger.StateIntent:
			s.Fence(t)
		case ledger.StateDispatched:
			s.rest(t)
		}
		s.check(t)
		if s.row.State.Terminal() {
			return
		}
	}
	t.Fatalf("the row does not come to an end: %+v", s.row)
}

// rest is what a reconciler, and in the end a person, does to a row at rest.
func (s *sim) rest(t *rapid.T) {
	r, err := s.move(probeMove())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Applied {
		return
	}
	var m ledger.Move = ledger.Resolve{Fence: r.Intent.Fence(), As: ledger.DecideNotSent, By: "ann", Reason: "looked everywhere"}
	if n := len(s.world.landed); n > 0 {
		m = ledger.Commit{Fence: r.Intent.Fence(), Evidence: evidence(s.world.id(s.world.landed[n-1])), Established: ledger.ByProbe}
	}
	if _, err := s.move(m); err != nil {
		t.Fatal(err)
	}
}

// action is something that may happen, when it can, with a weight.
type action struct {
	name   string
	weight int
	can    func() bool
	do     func(*rapid.T)
}

func (s *sim) actions() []action {
	always := func() bool { return true }
	live := func() bool { return !s.row.State.Terminal() }
	flies := func() bool { return len(s.world.flights) > 0 }
	return []action{
		{"fence", 8, s.any("idle"), s.Fence},
		{"put token", 1, s.any("fenced"), s.PutToken},
		{"stamp", 8, s.any("fenced"), s.Stamp},
		{"stamp under another's fence", 2, s.any("fenced", "stamped", "sent"), s.StampAgain},
		{"send", 8, s.any("stamped"), s.Send},
		{"refuse", 2, s.any("stamped"), s.Refuse},
		{"land", 5, flies, s.Land},
		{"lose", 3, flies, s.Lose},
		{"commit", 2, s.any("delivered"), s.Commit},
		{"not sent", 4, s.any("refused"), s.NotSent},
		{"give up", 2, s.any("fenced", "sent"), s.GiveUp},
		{"crash", 1, s.any("fenced", "stamped", "sent", "delivered", "refused"), s.Crash},
		{"clock", 5, always, s.Clock},
		{"cancel", 1, func() bool { return live() && s.mayCancel }, s.Cancel},
		{"take", 6, live, s.Take},
		{"look", 4, s.looking, s.Look},
		{"conclude", 8, s.looking, s.Conclude},
		{"person", 1, s.looking, s.Person},
	}
}

func TestWhateverHappensOneIntentHasOneEffectAndTheRowKnows(t *testing.T) {
	for range 4 { // rapid's hundred runs, each with a seed of its own
		rapid.Check(t, oneLife)
	}
}

func oneLife(t *rapid.T) {
	s := newSim(t)
	actions := s.actions()
	for range 120 {
		var can []action
		for _, a := range actions {
			if a.can() {
				for range a.weight {
					can = append(can, a)
				}
			}
		}
		n := rapid.SampledFrom(indices(len(can))).Draw(t, "next")
		t.Log(can[n].name)
		can[n].do(t)
		s.check(t)
		if s.row.State.Terminal() && rapid.SampledFrom(indices(8)).Draw(t, "stop") == 7 {
			break
		}
	}
	s.finish(t)
}

// indices lets rapid choose evenly; its ranges prefer small numbers.
func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
