package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// situation is a column of the table: a row as it can really be, reached by moves.
type situation struct {
	name string
	make func(t *testing.T) *shelf
}

func situations() []situation {
	return []situation{
		{"missing", func(t *testing.T) *shelf { s := newShelf(); s.found = false; return s }},
		{"intent", func(t *testing.T) *shelf { return newShelf() }},
		{"intent in doubt", func(t *testing.T) *shelf { return newShelf().doubted(t) }},
		{"intent of a restored ledger", func(t *testing.T) *shelf { return newShelf(func(i *ledger.Intent) { i.ProbeFirst = true }) }},
		{"of a restored ledger, probing", func(t *testing.T) *shelf { return newShelf().reopened(strong()).learned(t, strong()) }},
		{"of a restored ledger, probing, its token may be lost", func(t *testing.T) *shelf {
			return newShelf().reopened(allocated()).learned(t, allocated())
		}},
		{"dispatched", func(t *testing.T) *shelf { return newShelf().fenced(t) }},
		{"stamped", func(t *testing.T) *shelf { return newShelf().stamped(t, strong()) }},
		{"stamped, replay-safe", func(t *testing.T) *shelf { return newShelf().stamped(t, forEver()) }},
		{"stamped, fence dead", func(t *testing.T) *shelf { return newShelf().stamped(t, strong()).expired() }},
		{"probing, unstamped", func(t *testing.T) *shelf { return newShelf().fenced(t).probing(t) }},
		{"probing, stamped", func(t *testing.T) *shelf { return newShelf().stamped(t, strong()).probing(t) }},
		{"given back", func(t *testing.T) *shelf {
			s := newShelf().stamped(t, strong())
			s.must(t, ledger.Ambiguous{Fence: s.row.Fence(), Look: time.Second})
			return s
		}},
		{"held", func(t *testing.T) *shelf {
			s := newShelf().stamped(t, strong()).probing(t)
			s.must(t, ledger.Hold{Fence: s.row.Fence(), Reason: "look", Look: time.Hour})
			return s
		}},
		{"accepted", func(t *testing.T) *shelf {
			s := newShelf().stamped(t, strong())
			s.must(t, ledger.Accept{Fence: s.row.Fence(), Evidence: evidence("queue-1"), LookAgain: time.Hour})
			return s
		}},
		{"accepted, probing", func(t *testing.T) *shelf {
			s := newShelf().stamped(t, strong())
			s.must(t, ledger.Accept{Fence: s.row.Fence(), Evidence: evidence("queue-1"), LookAgain: time.Hour})
			return s.probing(t)
		}},
		{"committed", func(t *testing.T) *shelf {
			s := newShelf().stamped(t, strong())
			s.must(t, ledger.Commit{Fence: s.row.Fence(), Evidence: evidence("m-1"), Established: ledger.BySend})
			return s
		}},
		{"abandoned", func(t *testing.T) *shelf {
			s := newShelf().fenced(t)
			s.must(t, ledger.Abandon{Fence: s.row.Fence(), As: ledger.Refused, Reason: "550"})
			return s
		}},
	}
}

// movesOf are the rows of the table: each move as the holder of the row's present fence would make it.
func movesOf(i ledger.Intent, now time.Time) []struct {
	name string
	move ledger.Move
} {
	f := i.Fence()
	other := fence.Fence{Epoch: f.Epoch, Number: f.Number, Owner: "somebody-else"}
	return []struct {
		name string
		move ledger.Move
	}{
		{"fence", fenceMove()},
		{"put token", ledger.PutToken{Fence: f, Token: channel.Token{Version: 1, Data: []byte("key")}}},
		{"put a second token", ledger.PutToken{Fence: f, Token: channel.Token{Version: 2, Data: []byte("key 2")}}},
		{"stamp", stampMove(f, strong())},
		{"commit, sent", ledger.Commit{Fence: f, Evidence: evidence("m-1"), Established: ledger.BySend}},
		{"commit, found", ledger.Commit{Fence: f, Evidence: evidence("m-1"), Established: ledger.ByProbe}},
		{"commit by another", ledger.Commit{Fence: other, Evidence: evidence("m-1"), Established: ledger.BySend}},
		{"accept", ledger.Accept{Fence: f, Evidence: evidence("queue-1"), LookAgain: time.Minute}},
		{"ambiguous", ledger.Ambiguous{Fence: f, Look: time.Second}},
		{"reopen, no stamp", ledger.Reopen{Fence: f, Proof: ledger.ProofNoStamp}},
		{"reopen, not sent", ledger.Reopen{Fence: f, Proof: ledger.ProofNotSent}},
		{"reopen, absent, begun now", ledger.Reopen{Fence: f, Proof: ledger.ProofAbsentForGood, ProbeBegan: now}},
		{"reopen, token dead", ledger.Reopen{Fence: f, Proof: ledger.ProofAbsentForGood, ProbeBegan: now, TokenDead: true}},
		{"reopen, replay-safe", ledger.Reopen{Fence: f, Proof: ledger.ProofReplaySafe}},
		{"reopen, resend", ledger.Reopen{Fence: f, Proof: ledger.ProofResend, Policy: true}},
		{"reopen, resend without policy", ledger.Reopen{Fence: f, Proof: ledger.ProofResend}},
		{"reopen, a person's word", ledger.Reopen{Fence: f, Proof: ledger.ProofPerson}},
		{"abandon, never sent", ledger.Abandon{Fence: f, As: ledger.NeverSent}},
		{"abandon, refused", ledger.Abandon{Fence: f, As: ledger.Refused, NotSent: true}},
		{"abandon, failed outside", ledger.Abandon{Fence: f, As: ledger.FailedOutside, Evidence: evidence("tx-1")}},
		{"abandon, unknown", ledger.Abandon{Fence: f, As: ledger.Unknown, Policy: true}},
		{"abandon, unknown without policy", ledger.Abandon{Fence: f, As: ledger.Unknown}},
		{"hold", ledger.Hold{Fence: f, Reason: "look", Look: time.Hour}},
		{"probing fence", probeMove()},
		{"probing fence, person", ledger.ProbeFence{Owner: "ann", TTL: time.Minute, Person: true}},
		{"probing fence, old number", ledger.ProbeFence{Owner: "ann", TTL: time.Minute, Number: f.Number + 1}},
		{"probed, unknown", ledger.Probed{Fence: f, Finding: channel.FindingUnknown, ProbeBegan: now, Look: time.Minute}},
		{"probed, absent now", ledger.Probed{Fence: f, Finding: channel.FindingAbsentNow, ProbeBegan: now, Look: time.Minute}},
		{"probed, accepted", ledger.Probed{Fence: f, Finding: channel.FindingAccepted, ProbeBegan: now, Look: time.Minute}},
		{"cancel", ledger.RequestCancel{By: "ann"}},
		{"resolve, sent", ledger.Resolve{Fence: f, As: ledger.DecideSent, By: "ann", Reason: "she has it"}},
		{"resolve, notsent", ledger.Resolve{Fence: f, As: ledger.DecideNotSent, By: "ann", Reason: "not there"}},
		{"resolve, retry", ledger.Resolve{Fence: f, As: ledger.DecideRetry, By: "ann", Reason: "not there"}},
		{"resolve, unknown", ledger.Resolve{Fence: f, As: ledger.DecideUnknown, By: "ann", Reason: "who knows"}},
		{"resolve by nobody", ledger.Resolve{Fence: f, As: ledger.DecideSent, Reason: "?"}},
		{"late, sent", ledger.Late{Key: i.Key, Fence: other, Attempt: 1, Outcome: ledger.LateSent, Evidence: evidence("m-2")}},
		{"late, not sent", ledger.Late{Key: i.Key, Fence: other, Attempt: 1, Outcome: ledger.LateNotSent}},
	}
}

// outcomeOf says in a word what a move did.
func outcomeOf(s *shelf, m ledger.Move) string {
	before := s.row
	r, err := s.move(m)
	var refused *ledger.RefusedError
	switch {
	case errors.As(err, &refused):
		return "✗ " + refused.Rule
	case errors.Is(err, ledger.ErrNoIntent):
		return "✗ missing"
	case errors.Is(err, ledger.ErrFenceLost):
		return "✗ lost"
	case errors.Is(err, ledger.ErrFenceExpired):
		return "✗ expired"
	case errors.Is(err, ledger.ErrFenceAlive):
		return "✗ alive"
	case errors.Is(err, ledger.ErrTerminal):
		return "✗ ended"
	case errors.Is(err, ledger.ErrNumberMoved):
		return "✗ moved"
	case err != nil:
		return "BROKEN " + err.Error()
	}
	i := s.row
	var b strings.Builder
	switch {
	case len(s.last.Steps) == 0 && s.last.NewToken != nil:
		b.WriteString("token")
	case len(s.last.Steps) == 0 && s.last.NewLate != nil:
		b.WriteString("kept")
	case len(s.last.Steps) == 0:
		b.WriteString("done")
	default:
		b.WriteString(string(i.State))
	}
	if i.State == ledger.StateAbandoned && len(s.last.Steps) > 0 && before.State != ledger.StateAbandoned {
		fmt.Fprintf(&b, " %s", i.AbandonedAs)
	}
	for _, flag := range []struct {
		name string
		on   bool
	}{
		{"doubt", i.InDoubt() && !i.State.Terminal()}, {"stamp", i.Stamped() && i.State == ledger.StateDispatched}, {"held", i.Held()}, {"probing", i.Probing},
		{"cancelled", !i.CancelRequestedAt.IsZero() && i.State != ledger.StateAbandoned}, {"late", len(i.LateEvidence) > 0}, {"not applied", !r.Applied},
	} {
		if flag.on {
			b.WriteString(" +" + flag.name)
		}
	}
	return b.String()
}

// TestEveryMoveInEverySituation pins what each move does to a row in each situation: the state machine as a table. Run with -update after
// a change of the rules, and read the difference.
func TestEveryMoveInEverySituation(t *testing.T) {
	var b strings.Builder
	cells := 0
	for _, sit := range situations() {
		fmt.Fprintf(&b, "## %s\n", sit.name)
		first := sit.make(t)
		for n, m := range movesOf(first.row, first.now) {
			s := sit.make(t)
			m = movesOf(s.row, s.now)[n]
			got := outcomeOf(s, m.move)
			if strings.HasPrefix(got, "BROKEN") {
				t.Errorf("%s of a row that is %s: %s", m.name, sit.name, got)
			}
			fmt.Fprintf(&b, "%-32s %s\n", m.name, got)
			cells++
		}
	}
	if want := 18 * 37; cells != want {
		t.Errorf("the table has %d cells, want %d", cells, want)
	}
	golden(t, "testdata/moves.txt", b.String())
}
