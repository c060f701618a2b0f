package core

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const allowance = time.Second

// stamped is a dispatched row under a probing fence, stamped at t0 with a last possible send ten seconds later and a settle time
// of twenty.
func stamped(change ...func(*ledger.Intent)) ledger.Intent {
	i := ledger.Intent{
		Key: ledger.Key{RunID: "r", EffectKey: "mail:x"}, State: ledger.StateDispatched, FenceNumber: 7, FenceOwner: "us", Probing: true,
		Starts: 1, Attempts: 1, SendStartedAt: t0, FirstSentAt: t0, LastPossibleSend: t0.Add(10 * time.Second),
		Sheet: ledger.StampedSheet{Replay: channel.ReplayNever, Probe: channel.ProbeExact, NegativeProof: true,
			SettleTime: channel.Duration(20 * time.Second)},
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

func never(i *ledger.Intent) {
	i.SendStartedAt, i.FirstSentAt, i.LastPossibleSend, i.Attempts = time.Time{}, time.Time{}, time.Time{}, 0
}

// earlier is a row that an earlier life of the ledger may have sent until ten seconds after t0; its tokens follow from the intent.
func earlier(i *ledger.Intent) {
	i.ProbeFirst, i.LastPossibleSend, i.Sheet.Token = true, t0.Add(10*time.Second), channel.TokenDerived
}
func allocatedRow(i *ledger.Intent) { i.Sheet.Token = channel.TokenAllocated }
func byContentRow(i *ledger.Intent) { i.Sheet.FindsWithoutToken = true }

func heldRow(i *ledger.Intent)  { i.HeldAt, i.HoldReason = t0, "why" }
func replay(i *ledger.Intent)   { i.Sheet.Replay = channel.ReplayForEver }
func accepted(i *ledger.Intent) { i.AcceptedAt = t0 }
func cancelled(i *ledger.Intent) {
	i.CancelRequestedAt, i.CancelReason = t0, "somebody"
}

var exact = channel.Sheet{Kind: "mail", Probe: channel.ProbeExact, NegativeProof: true, SettleTime: channel.Duration(20 * time.Second)}

func finding(f channel.Finding) *channel.Finding { return &f }

func TestDecideFollowsTheProtocol(t *testing.T) {
	// An absence counts for a probe that began after 10 s + 20 s + 1 s.
	early, counts, longAfter := t0.Add(31*time.Second), t0.Add(31*time.Second+1), t0.Add(2*time.Minute)
	heuristic := exact
	heuristic.Probe, heuristic.NegativeProof = channel.ProbeHeuristic, false
	none := exact
	none.Probe, none.NegativeProof = channel.ProbeNone, false
	accepts := exact
	accepts.MayAccept, accepts.FinalWithin = true, channel.Duration(time.Minute)
	oldSheet := func(i *ledger.Intent) { i.Sheet.NegativeProof = false }
	tests := map[string]struct {
		row   ledger.Intent
		now   time.Time
		sheet channel.Sheet
		p     Policy
		found *channel.Finding
		want  ledger.Move // compared by kind and the fields that matter; nil: probe
	}{
		"never stamped: reopened":                    {row: stamped(never), now: early, sheet: exact, want: ledger.Reopen{Proof: ledger.ProofNoStamp}},
		"quarantined before any send: stays":         {row: stamped(never, heldRow), now: longAfter, sheet: exact, want: ledger.Hold{}},
		"quarantined before any send, cancelled":     {row: stamped(never, heldRow, cancelled), now: longAfter, sheet: exact, want: ledger.Reopen{Proof: ledger.ProofNoStamp}},
		"stamped, not replay-safe: probed":           {row: stamped(), now: early, sheet: exact},
		"replay-safe: the same bytes":                {row: stamped(replay), now: early, sheet: exact, want: ledger.Reopen{Proof: ledger.ProofReplaySafe}},
		"replay-safe but accepted: probed":           {row: stamped(replay, accepted), now: early, sheet: exact},
		"replay-safe but cancelled: probed":          {row: stamped(replay, cancelled), now: early, sheet: exact},
		"replay-safe but held: probed":               {row: stamped(replay, heldRow), now: early, sheet: exact},
		"exact sent: committed":                      {row: stamped(), now: early, sheet: exact, found: finding(channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "1"})), want: ledger.Commit{}},
		"held and found: committed":                  {row: stamped(heldRow), now: longAfter, sheet: exact, found: finding(channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "1"})), want: ledger.Commit{}},
		"heuristic sent: held":                       {row: stamped(), now: early, sheet: heuristic, found: finding(channel.SentFinding(channel.MatchHeuristic, channel.Evidence{ID: "1"})), want: ledger.Hold{}},
		"exact match of a heuristic probe: held":     {row: stamped(), now: early, sheet: heuristic, found: finding(channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "1"})), want: ledger.Hold{}},
		"heuristic accepted by policy: committed":    {row: stamped(), now: early, sheet: heuristic, p: Policy{AcceptHeuristic: true}, found: finding(channel.SentFinding(channel.MatchHeuristic, channel.Evidence{ID: "1"})), want: ledger.Commit{}},
		"absent for good, probed early: looks again": {row: stamped(), now: early, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"absent for good, in time: reopened":         {row: stamped(), now: counts, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Reopen{Proof: ledger.ProofAbsentForGood}},
		"token dead by itself: reopened at once":     {row: stamped(), now: t0, sheet: exact, found: finding(channel.Finding{Kind: channel.FindingAbsentForGood, TokenDead: true}), want: ledger.Reopen{Proof: ledger.ProofAbsentForGood}},
		"absent for good without negative proof":     {row: stamped(), now: counts, sheet: heuristic, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"absent by the new sheet, not the stamped":   {row: stamped(oldSheet), now: counts, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"beyond the probe's horizon: no absence":     {row: stamped(func(i *ledger.Intent) { i.Sheet.ProbeHorizon = channel.Duration(time.Minute) }), now: longAfter, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"absent now once: looks again":               {row: stamped(), now: longAfter, sheet: exact, found: finding(channel.AbsentNow("", true)), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"absent now twice, control: held":            {row: stamped(func(i *ledger.Intent) { i.AbsentSince = t0.Add(40 * time.Second) }), now: longAfter, sheet: exact, found: finding(channel.AbsentNow("", true)), want: ledger.Hold{}},
		"absent now, no control: not known":          {row: stamped(func(i *ledger.Intent) { i.AbsentSince = t0.Add(40 * time.Second) }), now: longAfter, sheet: exact, found: finding(channel.AbsentNow("", false)), want: ledger.Probed{Finding: channel.FindingUnknown}},
		"absent now twice, no control: held":         {row: stamped(func(i *ledger.Intent) { i.Unknowns = 1 }), now: longAfter, sheet: exact, found: finding(channel.AbsentNow("", false)), want: ledger.Hold{}},
		"absent now, no control, early: looks again": {row: stamped(), now: early, sheet: exact, found: finding(channel.AbsentNow("", false)), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"first absence too early to count twice":     {row: stamped(func(i *ledger.Intent) { i.AbsentSince = t0 }), now: longAfter, sheet: exact, found: finding(channel.AbsentNow("", true)), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"unknown twice: held":                        {row: stamped(func(i *ledger.Intent) { i.Unknowns = 1 }), now: longAfter, sheet: exact, found: finding(channel.UnknownFinding("")), want: ledger.Hold{}},
		"unknown once: looks again":                  {row: stamped(), now: longAfter, sheet: exact, found: finding(channel.UnknownFinding("")), want: ledger.Probed{Finding: channel.FindingUnknown}},
		"no probe, policy hold: held at once":        {row: stamped(), now: early, sheet: none, want: ledger.Hold{}},
		"no probe, policy abandon, early: waits":     {row: stamped(), now: early, sheet: none, p: Policy{Unknown: UnknownAbandon}, want: ledger.Probed{}},
		"no probe, policy abandon: unknown":          {row: stamped(), now: counts, sheet: none, p: Policy{Unknown: UnknownAbandon}, want: ledger.Abandon{As: ledger.Unknown, Policy: true}},
		"no probe, policy resend: sent again":        {row: stamped(), now: counts, sheet: none, p: Policy{Unknown: UnknownResend}, want: ledger.Reopen{Proof: ledger.ProofResend}},
		"policy resend, cancelled: held":             {row: stamped(cancelled), now: counts, sheet: none, p: Policy{Unknown: UnknownResend}, want: ledger.Hold{}},
		"policy resend never resends a held row":     {row: stamped(heldRow), now: counts, sheet: none, p: Policy{Unknown: UnknownResend}, want: ledger.Hold{}},
		"failed outside: abandoned with evidence":    {row: stamped(), now: early, sheet: exact, found: finding(channel.Finding{Kind: channel.FindingFailedOutside, Evidence: channel.Evidence{ID: "1"}}), want: ledger.Abandon{As: ledger.FailedOutside}},
		"failed outside without evidence: unknown":   {row: stamped(), now: early, sheet: exact, found: finding(channel.Finding{Kind: channel.FindingFailedOutside}), want: ledger.Probed{Finding: channel.FindingUnknown}},
		"accepted, not final: looks again":           {row: stamped(accepted), now: early, sheet: accepts, found: finding(channel.AcceptedFinding(channel.Evidence{ID: "1"}, 0)), want: ledger.Probed{Finding: channel.FindingAccepted}},
		"accepted, past the time: held":              {row: stamped(accepted), now: longAfter, sheet: accepts, found: finding(channel.AcceptedFinding(channel.Evidence{ID: "1"}, 0)), want: ledger.Hold{}},
		"accepted, which the sheet has not: unknown": {row: stamped(), now: longAfter, sheet: exact, found: finding(channel.AcceptedFinding(channel.Evidence{ID: "1"}, 0)), want: ledger.Probed{Finding: channel.FindingUnknown}},
		"accepted, which a new sheet has not: held":  {row: stamped(accepted), now: longAfter, sheet: exact, found: finding(channel.AcceptedFinding(channel.Evidence{ID: "1"}, 0)), want: ledger.Hold{}},
		"restored, replay-safe: probed first":        {row: stamped(never, earlier, replay), now: counts, sheet: exact},
		"restored, absent for good: reopened":        {row: stamped(never, earlier), now: counts, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Reopen{Proof: ledger.ProofAbsentForGood}},
		"restored, absent for good, early: again":    {row: stamped(never, earlier), now: early, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"restored, its token may be lost: held":      {row: stamped(never, earlier, allocatedRow), now: counts, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Hold{}},
		"restored, token dead, early: looks again":   {row: stamped(never, earlier, allocatedRow), now: early, sheet: exact, found: finding(channel.Finding{Kind: channel.FindingAbsentForGood, TokenDead: true}), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
		"restored, token dead, in time: held":        {row: stamped(never, earlier, allocatedRow), now: counts, sheet: exact, found: finding(channel.Finding{Kind: channel.FindingAbsentForGood, TokenDead: true}), want: ledger.Hold{}},
		"restored, found by content: reopened":       {row: stamped(never, earlier, allocatedRow, byContentRow), now: counts, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Reopen{Proof: ledger.ProofAbsentForGood}},
		"restored, exact sent: committed":            {row: stamped(never, earlier, allocatedRow), now: early, sheet: exact, found: finding(channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "1"})), want: ledger.Commit{}},
		"restored, no probe, same bytes: sent again": {row: stamped(never, earlier, replay), now: early, sheet: none, want: ledger.Reopen{Proof: ledger.ProofReplaySafe}},
		"restored, no probe, bytes lost: held":       {row: stamped(never, earlier, replay, allocatedRow), now: early, sheet: none, want: ledger.Hold{}},
		"restored, policy resend, derived":           {row: stamped(never, earlier), now: counts, sheet: none, p: Policy{Unknown: UnknownResend}, want: ledger.Reopen{Proof: ledger.ProofResend}},
		"restored, policy resend, token lost: held":  {row: stamped(never, earlier, allocatedRow), now: counts, sheet: none, p: Policy{Unknown: UnknownResend}, want: ledger.Hold{}},
		"restored, beyond the horizon: no absence":   {row: stamped(never, earlier, func(i *ledger.Intent) { i.Sheet.ProbeHorizon = channel.Duration(time.Minute) }), now: longAfter, sheet: exact, found: finding(channel.AbsentForGood("")), want: ledger.Probed{Finding: channel.FindingAbsentNow}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.p.Unknown == "" {
				tt.p.Unknown = UnknownHold
			}
			tt.p = tt.p.withDefaults(tt.sheet)
			got := look{row: tt.row, now: tt.now, policy: tt.p, sheet: tt.sheet, clockAllowance: allowance, found: tt.found}.decide()
			if tt.want == nil {
				if !got.probe {
					t.Fatalf("got %T %+v, want a probe", got.move, got.move)
				}
				return
			}
			if g, w := summary(got.move), summary(tt.want); g != w {
				t.Fatalf("got %s, want %s", g, w)
			}
		})
	}
}

func summary(m ledger.Move) string {
	switch m := m.(type) {
	case ledger.Reopen:
		return "reopen " + string(m.Proof)
	case ledger.Abandon:
		return "abandon " + string(m.As)
	case ledger.Probed:
		return "probed " + m.Finding.String()
	case ledger.Hold:
		return "hold"
	case ledger.Commit:
		return "commit"
	}
	return "probe"
}

func TestPolicyRefusesTimesThatCannotHold(t *testing.T) {
	good := Policy{Unknown: UnknownHold}
	tests := map[string]struct {
		p     Policy
		sheet channel.Sheet
		field string // empty: accepted
	}{
		"defaults":                      {p: good, sheet: exact},
		"no policy for unknown":         {p: Policy{}, sheet: exact, field: "unknown"},
		"resend, not replay-safe":       {p: Policy{Unknown: UnknownResend}, sheet: exact, field: "unknown"},
		"resend, said in words":         {p: Policy{Unknown: UnknownResend, AcceptDuplicates: DuplicatesAcceptable}, sheet: exact},
		"resend, replay-safe":           {p: Policy{Unknown: UnknownResend}, sheet: channel.Sheet{Kind: "x", Replay: channel.ReplayForEver}},
		"fence shorter than the send":   {p: Policy{Unknown: UnknownHold, SendTimeout: time.Minute, FenceTTL: time.Minute}, sheet: exact, field: "fence_ttl"},
		"token dies before the send":    {p: good, sheet: channel.Sheet{Kind: "x", Replay: channel.ReplayWithinLife, TokenLife: channel.Duration(10 * time.Second)}, field: "send_timeout"},
		"probe cannot look back so far": {p: good, sheet: channel.Sheet{Kind: "x", Probe: channel.ProbeExact, ProbeHorizon: channel.Duration(time.Minute)}, field: "fence_ttl"},
		"skip in a lane of numbers":     {p: Policy{Unknown: UnknownHold, Lane: LaneSkip}, sheet: channel.Sheet{Kind: "x", LaneNumbers: true}, field: "lane"},
		"negative time":                 {p: Policy{Unknown: UnknownHold, Margin: -1}, sheet: exact, field: "margin"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.p.withDefaults(tt.sheet.Normal()).validate(tt.sheet.Normal(), allowance)
			switch {
			case tt.field == "" && err != nil:
				t.Fatal(err)
			case tt.field != "" && (err == nil || !containsField(err.Error(), tt.field)):
				t.Fatalf("got %v, want a fault of %s", err, tt.field)
			}
		})
	}
}

func containsField(text, field string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, field+":") {
			return true
		}
	}
	return false
}
