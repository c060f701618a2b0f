package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// shelf is the smallest backend: one row in memory, written as a backend writes what Apply says.
type shelf struct {
	row      ledger.Intent
	found    bool
	tokens   []channel.Token
	late     []ledger.LateEvidence // all
	used     map[string]bool
	taken    map[string]bool // evidence ids that other intents of the channel have
	log      []ledger.LogEntry
	receipts []receipt.Effect
	phase    ledger.Phase // of the queue row
	due      time.Time
	turns    int // how often the lane moved on
	raised   int64
	now      time.Time
	epoch    int64
	opened   time.Time // of the epoch; zero: the first
	horizon  time.Duration
	term     time.Duration
	seen     time.Time // heartbeat of the fence's owner
	runOver  bool      // the run was cancelled
	last     ledger.Change
}

var errCompareAndSet = errors.New("the row is not what the step says it comes from")

const (
	worker  = "worker-1"
	settler = "reconciler-1"
)

// start is when every test begins.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newShelf(change ...func(*ledger.Intent)) *shelf {
	s := &shelf{found: true, now: start(), epoch: 1, used: map[string]bool{}, taken: map[string]bool{}, phase: ledger.PhaseSend}
	s.row = ledger.Intent{
		Key: ledger.Key{RunID: "01890a5d-ac96-774b-bcce-b302099a8057", EffectKey: "mail:welcome"}, State: ledger.StateIntent, Kind: "mail",
		Channel: "mail", Payload: []byte(`{}`), PayloadDigest: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		DueAt: s.now, CreatedAt: s.now,
	}
	s.due = s.now
	for _, c := range change {
		c(&s.row)
	}
	return s
}

func (s *shelf) snapshot() ledger.Snapshot {
	snap := ledger.Snapshot{
		Key: s.row.Key, Found: s.found, Intent: s.row, Tokens: s.tokens, Now: s.now, LedgerID: "ledger", Epoch: s.epoch,
		RunCancelled: s.runOver, OwnerSeen: s.seen, Opened: s.opened, Horizon: s.horizon, FenceTerm: s.term,
	}
	for _, l := range s.late {
		if !s.used[l.ID] {
			snap.Late = append(snap.Late, l)
		}
	}
	return snap
}

// move makes one move and writes the change.
func (s *shelf) move(m ledger.Move) (ledger.Result, error) {
	snap := s.snapshot()
	change, err := ledger.Apply(snap, m)
	if err != nil {
		return change.Result, err
	}
	if change.EvidenceID != "" && s.taken[change.EvidenceID] {
		snap.EvidenceTaken = true
		if change, err = ledger.Apply(snap, m); err != nil {
			return change.Result, err
		}
	}
	return change.Result, s.write(change)
}

func (s *shelf) write(c ledger.Change) error {
	for _, step := range c.Steps {
		if step.From.State != s.row.State || step.From.FenceNumber != s.row.FenceNumber {
			return errCompareAndSet
		}
		if err := legal(step); err != nil {
			return err
		}
		s.row = step.To
	}
	if len(c.Steps) > 0 {
		s.phase, s.due = c.Phase, c.DueAt
	}
	if c.NewToken != nil {
		s.tokens = append(slices.Clone(s.tokens), *c.NewToken)
		if c.RaiseLane {
			s.raised = c.NewToken.LaneNumber
		}
	}
	if c.TokensDead {
		s.tokens = slices.Clone(s.tokens)
		for i := range s.tokens {
			s.tokens[i].Dead = true
		}
	}
	if c.NewLate != nil {
		l := *c.NewLate
		l.ID = fmt.Sprintf("late-%d", len(s.late))
		s.late = append(s.late, l)
	}
	for _, id := range c.UsedLate {
		s.used[id] = true
	}
	if c.EndTurn {
		s.turns++
	}
	s.log = append(s.log, c.Log...)
	s.receipts = append(s.receipts, c.Receipts...)
	s.last = c
	return nil
}

// legal is what the database's triggers allow, said once more: Apply must never ask for anything else.
func legal(step ledger.Step) error {
	from, to := step.From, step.To
	bad := func(format string, args ...any) error {
		return fmt.Errorf("illegal step %s → %s: %s", from.State, to.State, fmt.Sprintf(format, args...))
	}
	allowed := map[ledger.State][]ledger.State{
		ledger.StateIntent:     {ledger.StateIntent, ledger.StateDispatched, ledger.StateAbandoned},
		ledger.StateDispatched: {ledger.StateDispatched, ledger.StateIntent, ledger.StateCommitted, ledger.StateAbandoned},
		ledger.StateCommitted:  {ledger.StateCommitted}, ledger.StateAbandoned: {ledger.StateAbandoned},
	}
	switch {
	case !slices.Contains(allowed[from.State], to.State):
		return bad("no such move")
	case to.FenceNumber < from.FenceNumber, to.Starts < from.Starts, to.Attempts < from.Attempts, to.LedgerEpoch < from.LedgerEpoch:
		return bad("a number goes back")
	case to.LastPossibleSend.Before(from.LastPossibleSend):
		return bad("the last possible send goes back")
	case from.State == ledger.StateIntent && to.State == ledger.StateDispatched && to.FenceNumber <= from.FenceNumber:
		return bad("a fence without a number of its own")
	case from.State == ledger.StateDispatched && to.State == ledger.StateIntent && to.FenceNumber <= from.FenceNumber:
		return bad("a reopen that keeps the number")
	case from.State == ledger.StateDispatched && to.State == ledger.StateIntent && step.Proof == "":
		return bad("a reopen without a proof")
	case to.State == ledger.StateAbandoned && from.Stamped() && !to.Stamped() && step.Proof == "":
		return bad("a stamp goes without a proof")
	case to.State == ledger.StateAbandoned && len(from.Doubts) > len(to.Doubts) && step.Proof != ledger.ProofPerson && step.Proof != ledger.ProofAbsentForGood:
		return bad("doubt is hidden")
	case to.State == ledger.StateCommitted && len(to.Evidence) == 0:
		return bad("committed without evidence")
	case to.State == ledger.StateAbandoned && to.AbandonedAs == "":
		return bad("abandoned as nothing")
	case from.ProbeFirst && !to.ProbeFirst && !to.State.Terminal() && (step.Proof == "" || from.State != ledger.StateDispatched || to.State != ledger.StateIntent):
		return bad("an earlier life's send is forgotten")
	case to.ProbeFirst && to.Stamped() && !from.Stamped():
		return bad("stamped before it was probed")
	case from.ProbeFirst && (to.AbandonedAs == ledger.NeverSent || to.AbandonedAs == ledger.Refused) && step.Proof != ledger.ProofAbsentForGood && step.Proof != ledger.ProofPerson:
		return bad("%s, and an earlier life may have sent it", to.AbandonedAs)
	case from.State == ledger.StateIntent && to.State == ledger.StateAbandoned && len(from.Doubts) > 0:
		return bad("abandoned despite doubt")
	case to.State == ledger.StateAbandoned && (to.AbandonedAs == ledger.NeverSent || to.AbandonedAs == ledger.Refused) && len(to.Doubts) > 0:
		return bad("%s despite doubt", to.AbandonedAs)
	}
	if from.State.Terminal() {
		kept := to
		kept.LateEvidence = nil
		before := from
		before.LateEvidence = nil
		if fmt.Sprintf("%+v", kept) != fmt.Sprintf("%+v", before) || len(from.LateEvidence) > 0 {
			return bad("a terminal row moves")
		}
	}
	return nil
}

func (s *shelf) must(t *testing.T, m ledger.Move) ledger.Result {
	t.Helper()
	r, err := s.move(m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantRule(t *testing.T, err error, rule string) {
	t.Helper()
	var r *ledger.RefusedError
	if !errors.As(err, &r) || r.Rule != rule {
		t.Fatalf("got error %v, want a refusal by rule %s", err, rule)
	}
}

func (s *shelf) wantState(t *testing.T, want ledger.State) {
	t.Helper()
	if s.row.State != want {
		t.Fatalf("the row is %s (%s), want %s", s.row.State, s.row.Outcome(), want)
	}
}

func strong() channel.Sheet {
	return channel.Sheet{
		Kind: "mail", Version: "1", Token: channel.TokenDerived, Replay: channel.ReplayNever, Probe: channel.ProbeExact, NegativeProof: true,
		SettleTime: channel.Duration(10 * time.Second), EvidenceNamesOneEffect: true,
	}
}

func forEver() channel.Sheet {
	s := strong()
	s.Replay = channel.ReplayForEver
	return s
}

func fenceMove() ledger.Fence { return ledger.Fence{Owner: worker, TTL: time.Minute} }

func stampMove(f fence.Fence, sheet channel.Sheet) ledger.Stamp {
	return ledger.Stamp{
		Fence: f, Token: &channel.Token{Version: 1, Data: []byte("key")}, Sheet: sheet, SendTimeout: 10 * time.Second,
		CommitBound: 5 * time.Second, Margin: time.Second,
	}
}

func (s *shelf) fenced(t *testing.T) *shelf {
	t.Helper()
	s.must(t, fenceMove())
	return s
}

// stamped fences and stamps.
func (s *shelf) stamped(t *testing.T, sheet channel.Sheet) *shelf {
	t.Helper()
	s.fenced(t)
	s.must(t, stampMove(s.row.Fence(), sheet))
	return s
}

// doubted has sent once without an answer and is an intent again.
func (s *shelf) doubted(t *testing.T) *shelf {
	t.Helper()
	s.stamped(t, forEver())
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe})
	return s
}

func (s *shelf) expired() *shelf {
	s.now = s.row.FenceExpiresAt.Add(fence.DefaultClockAllowance + time.Microsecond)
	return s
}

func probeMove() ledger.ProbeFence { return ledger.ProbeFence{Owner: settler, TTL: time.Minute} }

// probing takes the row by a probing fence, when its fence is dead.
func (s *shelf) probing(t *testing.T) *shelf {
	t.Helper()
	if s.row.State == ledger.StateDispatched && s.row.FenceOwner != "" {
		s.expired()
	}
	s.must(t, probeMove())
	return s
}

func evidence(id string) channel.Evidence { return channel.Evidence{ID: id} }
