package ledgertest

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// The one big table: what may be written to a row in each situation, by each way to write. A cell is '+' (allowed), '.' (refused, or
// without any effect) or '?' (either: backends may differ, because nothing unsafe can come of it).
func illegalTopic() topic {
	return topic{"every way to write", []testCase{
		{name: "moves by the API", run: tableAPI},
		{name: "moves by SQL", run: tableSQL},
		{name: "rows are never deleted or replaced", run: tableKept},
		{name: "only a bare intent is inserted", run: tableInserts},
		{name: "what was recorded stays recorded", run: tableAppendOnly},
	}}
}

// The counts of asserted cells: a table that shrinks is a table that checks less.
const (
	apiCells    = 19 * situationCount
	sqlCells    = 416 // for each way to write
	insertCells = 16
)

const situationCount = 9

// situation is a column: a row as the API leaves it.
type situation struct {
	name string
	make func(f *fixture) ledger.Key
}

func situations(exact, replay string) []situation {
	on := func(f *fixture, name string) *fixture {
		g := *f
		g.channel = name
		return &g
	}
	doubt := func(f *fixture) ledger.Key {
		k := on(f, replay).claim()
		i := f.stamped(k)
		f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
		return k
	}
	unknown := func(f *fixture) ledger.Key {
		k := on(f, exact).claim()
		i := f.stamped(k)
		f.move(k, ledger.Abandon{Fence: i.Fence(), As: ledger.Unknown, Policy: true, Reason: "policy"})
		return k
	}
	return []situation{
		{"intent", func(f *fixture) ledger.Key { return on(f, exact).claim() }},
		{"in doubt", doubt},
		{"dispatched", func(f *fixture) ledger.Key { k := on(f, exact).claim(); f.fenced(k); return k }},
		{"stamped", func(f *fixture) ledger.Key { k := on(f, exact).claim(); f.stamped(k); return k }},
		{"disp. in doubt", func(f *fixture) ledger.Key { k := doubt(f); f.fenced(k); return k }},
		{"both", func(f *fixture) ledger.Key { k := doubt(f); f.stamped(k); return k }},
		{"committed", func(f *fixture) ledger.Key { k := on(f, exact).claim(); f.committed(k); return k }},
		{"abandoned", unknown},
		{"ab. + late", func(f *fixture) ledger.Key {
			k := unknown(f)
			f.move(k, lateSent(k, f.read(k), uuid.NewString()))
			return k
		}},
	}
}

// table prints what was asserted.
type table struct {
	f     *fixture
	out   strings.Builder
	cells int
}

func (t *table) head(title string, names []situation) {
	fmt.Fprintf(&t.out, "\n%-44s", title)
	for _, n := range names {
		fmt.Fprintf(&t.out, "%-15s", n.name)
	}
	t.out.WriteByte('\n')
}

func (t *table) row(name string) { fmt.Fprintf(&t.out, "%-44s", name) }

// cell asserts one and prints it.
func (t *table) cell(row, column string, want byte, allowed bool, why string) {
	t.f.t.Helper()
	got := "refused"
	if allowed {
		got = "allowed"
	}
	if want == '?' {
		fmt.Fprintf(&t.out, "%-15s", "("+got+")")
		return
	}
	t.cells++
	fmt.Fprintf(&t.out, "%-15s", got)
	if allowed != (want == '+') {
		t.f.t.Errorf("%s of a row that is %s: %s, want %q %s", row, column, got, want, why)
	}
}

func (t *table) end(want int) {
	t.f.t.Helper()
	t.f.t.Log(t.out.String())
	if t.cells != want {
		t.f.t.Errorf("the table asserts %d cells, want %d", t.cells, want)
	}
}

// apiMoves are the rows of the API's table: as the holder of the row's fence would move. Each string has a cell for each situation.
func apiMoves(i ledger.Intent, now func() ledger.Reopen) []struct {
	name string
	want string
	move ledger.Move
} {
	fence := i.Fence()
	t := newToken(1)
	sheet := exactSheet()
	absent := now()
	absent.Fence = fence
	return []struct {
		name string
		want string
		move ledger.Move
	}{
		{"put token", "..++++...", ledger.PutToken{Fence: fence, Token: t}},
		{"stamp", "..+.+....", ledger.Stamp{Fence: fence, Token: &t, Sheet: sheet, SendTimeout: moment, CommitBound: moment, Margin: moment}},
		{"commit, sent", "...+.++..", sentAs(i, uuid.NewString())},
		{"commit, found", "..+++++..", ledger.Commit{Fence: fence, Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.ByProbe}},
		{"accept", "...+.+...", ledger.Accept{Fence: fence, Evidence: channel.Evidence{ID: "q"}}},
		{"ambiguous", "...+.+...", ledger.Ambiguous{Fence: fence}},
		{"reopen, no stamp", "..+.+....", ledger.Reopen{Fence: fence, Proof: ledger.ProofNoStamp}},
		{"reopen, not sent", "..++++...", ledger.Reopen{Fence: fence, Proof: ledger.ProofNotSent}},
		{"reopen, absent for good", "...+.....", absent},
		{"reopen, replay-safe", "....++...", ledger.Reopen{Fence: fence, Proof: ledger.ProofReplaySafe}},
		{"reopen, resend without policy", ".........", ledger.Reopen{Fence: fence, Proof: ledger.ProofResend}},
		{"abandon, never sent", "..+......", ledger.Abandon{Fence: fence, As: ledger.NeverSent}},
		{"abandon, refused", "..++.....", ledger.Abandon{Fence: fence, As: ledger.Refused, NotSent: true}},
		{"abandon, unknown by policy", "..++++.++", ledger.Abandon{Fence: fence, As: ledger.Unknown, Policy: true}},
		{"hold", "..++++...", ledger.Hold{Fence: fence, Reason: "look"}},
		{"probing fence beside a live fence", ".+.......", probeFence()},
		{"cancel", "++++++...", ledger.RequestCancel{By: "ann"}},
		{"resolve without a probing fence", ".........", ledger.Resolve{Fence: fence, As: ledger.DecideSent, By: "ann", Reason: "sure"}},
		{"late evidence", "+++++++++", ledger.Late{Key: i.Key, Fence: fence, Attempt: 1, Outcome: ledger.LateNotSent}},
	}
}

func tableAPI(f *fixture) {
	columns := situations(f.addChannel(exactSheet()), f.addChannel(replaySheet()))
	t := &table{f: f}
	t.head("by the API", columns)
	absent := func() ledger.Reopen {
		return ledger.Reopen{Proof: ledger.ProofAbsentForGood, ProbeBegan: f.now(), ClockAllowance: 1}
	}
	shared := make([]ledger.Key, len(columns)) // refusals change nothing, so one row serves them all
	for n, c := range columns {
		shared[n] = c.make(f)
	}
	f.after(f.now().Add(3 * moment)) // every last possible send is over
	for r, m := range apiMoves(f.read(shared[0]), absent) {
		t.row(m.name)
		for n, c := range columns {
			k := shared[n]
			before := f.read(k)
			m := apiMoves(before, absent)[r]
			if m.want[n] == '+' {
				k = c.make(f)
				f.after(f.now().Add(3 * moment))
				m = apiMoves(f.read(k), absent)[r]
			}
			_, err := f.try(k, m.move)
			t.cell(m.name, c.name, m.want[n], err == nil, fmt.Sprint(err))
			if m.want[n] == '.' {
				if got := f.read(k); got.State != before.State || got.FenceNumber != before.FenceNumber || got.Attempts != before.Attempts {
					f.t.Errorf("%s of a row that is %s was refused and changed it", m.name, c.name)
				}
			}
		}
		t.out.WriteByte('\n')
	}
	t.end(apiCells)
}
