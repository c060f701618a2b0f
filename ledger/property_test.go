package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// sim drives Apply with workers that stall and wake as zombies, reconcilers, a person, a clock and an outside world. It knows the
// truth, which the ledger does not, and keeps its own account of what the ledger must know.
type sim struct {
	*shelf
	world     *outside
	policy    bool // duplicates are accepted
	workers   []*hand
	lookers   []*looker
	starts    int
	stamps    int
	before    ledger.Intent // for what only grows
	given     []string      // evidence that was handed in
	mayCancel bool
}

// hand is a worker that dispatches.
type hand struct {
	stage    string // idle, fenced, stamped, sent, delivered, refused
	fence    fence.Fence
	attempt  int
	token    string
	notAfter time.Time
	evidence string
}

// looker is a reconciler, or a person at a screen.
type looker struct {
	fence  fence.Fence
	has    bool
	looked bool
	began  time.Time
	found  string // evidence seen; empty: nothing
}

func newSim(t *rapid.T) *sim {
	sheets := map[string]channel.Sheet{"never": strong(), "for ever": forEver()}
	life := forEver()
	life.Replay, life.TokenLife = channel.ReplayWithinLife, channel.Duration(50*time.Second)
	blind := strong()
	blind.Probe, blind.NegativeProof = channel.ProbeNone, false
	sheets["within life"], sheets["blind"] = life, blind
	sheet := sheets[rapid.SampledFrom([]string{"never", "for ever", "within life", "blind"}).Draw(t, "sheet")]
	s := &sim{shelf: newShelf(), mayCancel: oneIn(t, 4, "cancels"), policy: oneIn(t, 5, "policy")}
	s.world = &outside{sheet: sheet, seen: map[string]time.Time{}}
	for range 3 {
		s.workers = append(s.workers, &hand{stage: "idle"})
	}
	s.lookers = []*looker{{}, {}}
	s.before = s.row
	return s
}

// move is the shelf's, with an eye on late evidence: whoever moves next settles the row with it.
func (s *sim) move(m ledger.Move) (ledger.Result, error) {
	_, handsIn := m.(ledger.Late)
	settles := !s.row.State.Terminal() && !handsIn && slices.ContainsFunc(s.late, func(l ledger.LateEvidence) bool {
		return l.Outcome == ledger.LateSent && !s.used[l.ID]
	})
	r, err := s.shelf.move(m)
	if settles && (err != nil || s.row.State != ledger.StateCommitted) {
		return r, fmt.Errorf("%T came upon late evidence and left the row %s: %w", m, s.row.State, errors.Join(err, errCompareAndSet))
	}
	return r, err
}

// worker picks one at one of the stages; there is one.
func (s *sim) worker(t *rapid.T, stages ...string) *hand {
	var at []*hand
	for _, w := range s.workers {
		if slices.Contains(stages, w.stage) {
			at = append(at, w)
		}
	}
	return rapid.SampledFrom(at).Draw(t, "worker")
}

func (s *sim) any(stages ...string) func() bool {
	return func() bool {
		return slices.ContainsFunc(s.workers, func(w *hand) bool { return slices.Contains(stages, w.stage) })
	}
}

func oneIn(t *rapid.T, n int, what string) bool {
	return rapid.SampledFrom(indices(n)).Draw(t, what) == n-1
}

// zombie accepts the errors that a zombie may get; any other fails the test.
func (s *sim) zombie(t *rapid.T, err error) bool {
	var refused *ledger.RefusedError
	switch {
	case err == nil:
		return false
	case errors.Is(err, ledger.ErrFenceLost), errors.Is(err, ledger.ErrFenceExpired), errors.Is(err, ledger.ErrFenceAlive),
		errors.Is(err, ledger.ErrTerminal), errors.As(err, &refused):
		return true
	}
	t.Fatal(err)
	return true
}

func (s *sim) Fence(t *rapid.T) {
	w := s.worker(t, "idle")
	m := fenceMove()
	m.Owner = fmt.Sprintf("worker-%d", slices.Index(s.workers, w))
	m.AttemptCeiling = 6
	r, err := s.move(m)
	if s.zombie(t, err) || !r.Applied || r.Intent.State != ledger.StateDispatched {
		return
	}
	s.starts++
	*w = hand{stage: "fenced", fence: r.Intent.Fence()}
}

func (s *sim) PutToken(t *rapid.T) {
	w := s.worker(t, "fenced")
	version := rapid.SampledFrom([]int{1, 2}).Draw(t, "version")
	r, err := s.move(ledger.PutToken{Fence: w.fence, Token: channel.Token{Version: version, Data: fmt.Appendf(nil, "%s %d", w.fence, version)}})
	if !s.zombie(t, err) && r.Applied && r.Token.Version != version {
		t.Fatalf("asked for version %d, got %d", version, r.Token.Version)
	}
}

func (s *sim) Stamp(t *rapid.T) {
	w := s.worker(t, "fenced")
	m := stampMove(w.fence, s.world.sheet)
	m.Token.Data = []byte(w.fence.String())
	m.SendTimeout = time.Duration(rapid.SampledFrom([]int{2, 10, 45}).Draw(t, "timeout")) * time.Second
	r, err := s.move(m)
	if s.zombie(t, err) || !r.Applied {
		return
	}
	s.stamps++
	w.stage, w.attempt, w.notAfter = "stamped", r.Intent.Attempts, s.now.Add(r.Remaining)
	w.token = string(r.Tokens[len(r.Tokens)-1].Data)
	if !s.now.Add(m.CommitBound + m.Margin).Before(s.row.FenceExpiresAt) {
		t.Fatal("stamped with too little left of the fence")
	}
}

// StampAgain is a worker that forgot where it was, or was restarted with what another one knew.
func (s *sim) StampAgain(t *rapid.T) {
	w := s.worker(t, "fenced", "stamped", "sent")
	f := w.fence
	if oneIn(t, 2, "present fence") {
		f = s.row.Fence()
	}
	m := stampMove(f, s.world.sheet)
	m.Token = nil
	r, err := s.move(m)
	if s.zombie(t, err) || !r.Applied {
		return
	}
	s.stamps++
	for _, o := range s.workers {
		if o.fence == f {
			o.stage, o.attempt, o.notAfter, o.token = "stamped", r.Intent.Attempts, s.now.Add(r.Remaining), string(r.Tokens[len(r.Tokens)-1].Data)
		}
	}
}

// Send is Begin and the wire: the one thing that the ledger cannot see.
func (s *sim) Send(t *rapid.T) {
	w := s.worker(t, "stamped")
	if !s.now.Before(w.notAfter) {
		w.stage = "refused" // Begin refuses, and the adapter says so
		return
	}
	s.world.flights = append(s.world.flights, flight{
		attempt: w.attempt, token: w.token, lastLand: w.notAfter.Add(s.world.sheet.SettleTime.D()),
	})
	w.stage = "sent"
}

// Refuse is a typed not sent before the wire.
func (s *sim) Refuse(t *rapid.T) { s.worker(t, "stamped").stage = "refused" }

func (s *sim) Land(t *rapid.T) {
	f := rapid.SampledFrom(s.world.flights).Draw(t, "flight")
	if !s.world.land(slices.Index(s.world.flights, f), s.now) {
		return
	}
	for _, w := range s.workers {
		if w.stage == "sent" && w.attempt == f.attempt && rapid.Bool().Draw(t, "answered") {
			w.stage, w.evidence = "delivered", s.world.id(f)
		}
	}
}

func (s *sim) Lose(t *rapid.T) {
	n := rapid.SampledFrom(indices(len(s.world.flights))).Draw(t, "flight")
	s.world.flights = slices.Delete(slices.Clone(s.world.flights), n, n+1)
}

func (s *sim) Commit(t *rapid.T) {
	w := s.worker(t, "delivered")
	var m ledger.Move = ledger.Commit{Fence: w.fence, Evidence: evidence(w.evidence), Established: ledger.BySend}
	if oneIn(t, 4, "accepted") {
		m = ledger.Accept{Fence: w.fence, Evidence: evidence(w.evidence), LookAgain: time.Second}
	}
	_, commit := m.(ledger.Commit)
	r, err := s.move(m)
	switch {
	case err != nil:
		if !errors.Is(err, ledger.ErrFenceLost) {
			t.Fatal(err)
		}
		s.handIn(t, ledger.Late{Key: s.row.Key, Fence: w.fence, Attempt: w.attempt, Outcome: ledger.LateSent, Evidence: evidence(w.evidence)})
		s.given = append(s.given, w.evidence)
	case commit:
		s.given = append(s.given, w.evidence)
	case r.Applied && ledger.EvidenceID(s.row.Evidence) != w.evidence:
		t.Fatal("accepted evidence is not kept")
	}
	*w = hand{stage: "idle"}
}

func (s *sim) handIn(t *rapid.T, l ledger.Late) {
	if _, err := s.move(l); err != nil {
		t.Fatalf("late evidence was refused: %v", err)
	}
}

// NotSent hands in what is proven of the own attempt.
func (s *sim) NotSent(t *rapid.T) {
	w := s.worker(t, "refused")
	var m ledger.Move = ledger.Reopen{Fence: w.fence, Proof: ledger.ProofNotSent}
	if oneIn(t, 6, "rejected") {
		m = ledger.Abandon{Fence: w.fence, As: ledger.Refused, Reason: "550", NotSent: true}
	}
	if _, err := s.move(m); err != nil {
		var refused *ledger.RefusedError
		if errors.As(err, &refused) {
			return // in doubt from before: it stays
		}
		if !errors.Is(err, ledger.ErrFenceLost) {
			t.Fatal(err)
		}
		s.handIn(t, ledger.Late{Key: s.row.Key, Fence: w.fence, Attempt: w.attempt, Outcome: ledger.LateNotSent})
	}
	*w = hand{stage: "idle"}
}

func (s *sim) GiveUp(t *rapid.T) {
	w := s.worker(t, "fenced", "sent")
	if w.stage == "sent" {
		_, err := s.move(ledger.Ambiguous{Fence: w.fence, Look: time.Second})
		s.zombie(t, err)
		return // it may still hear the answer
	}
	_, err := s.move(ledger.Reopen{Fence: w.fence, Proof: ledger.ProofNoStamp})
	s.zombie(t, err)
	*w = hand{stage: "idle"}
}

func (s *sim) Crash(t *rapid.T) {
	*s.worker(t, "fenced", "stamped", "sent", "delivered", "refused") = hand{stage: "idle"}
}

func (s *sim) Clock(t *rapid.T) {
	s.now = s.now.Add(time.Duration(rapid.SampledFrom([]int{1, 3, 9, 9, 20, 70}).Draw(t, "seconds")) * time.Second)
	s.world.forget(s.now)
}

func (s *sim) Cancel(t *rapid.T) {
	_, err := s.move(ledger.RequestCancel{By: "ann"})
	s.zombie(t, err)
}
