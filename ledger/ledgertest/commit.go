package ledgertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func commitTopic() topic {
	return topic{"commit and accept", []testCase{
		{name: "writes evidence, end, log and receipt together", run: commitWritesAll},
		{name: "under the own fence again is done already", run: commitAgain},
		{name: "under a lost fence is refused", run: commitLost},
		{name: "needs a stamp or a finding", run: commitNeedsStamp},
		{name: "of evidence that another intent has is held", run: commitSecondClaimant},
		{name: "takes hostile evidence", run: commitHostile},
		{name: "without a signer owes the receipt, which is paid later", run: commitOwes},
		{name: "accepted stays dispatched with its evidence and its next look", run: acceptKeeps},
		{name: "accepted is committed by a later finding", run: acceptThenCommit},
		{name: "all receipts come in order of issue", run: receiptsInOrder},
	}}
}

func commitWritesAll(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	m := sentAs(i, "message-"+uuid.NewString())
	m.Evidence.Detail = json.RawMessage(`{"size": 12, "queue": "a"}`)
	r := f.move(k, m)
	if !r.Applied || r.Intent.State != ledger.StateCommitted {
		f.t.Fatalf("the commit gave %+v", r)
	}
	got := f.is(k, ledger.StateCommitted)
	e := ledger.DecodeEvidence(got.Evidence)
	if e.ID != m.Evidence.ID || got.CommittedAt.IsZero() || got.Established != ledger.BySend || got.Held() || got.Outcome() != "committed" {
		f.t.Errorf("committed is %+v with evidence %s", got, got.Evidence)
	}
	if !sameJSON(e.Detail, m.Evidence.Detail) {
		f.t.Errorf("stored detail is %s, want %s", e.Detail, m.Evidence.Detail)
	}
	if log := f.outcomes(k); log != "fenced sent" {
		f.t.Errorf("log is %q", log)
	}
	rs := f.receipts(k)
	if len(rs) != 1 || rs[0].Outcome != "committed" || rs[0].Owed || len(rs[0].Envelope) == 0 || rs[0].Digest == "" || rs[0].Key != k || rs[0].IssuedAt.IsZero() {
		f.t.Errorf("receipts are %+v", rs)
	}
	if n := f.queueRows(k); n != 0 {
		f.t.Errorf("%d queue rows of a committed intent", n)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func (f *fixture) queueRows(k ledger.Key) int64 {
	f.t.Helper()
	return f.queryInt("SELECT count(*) FROM dispatch_queue" + where(k))
}

func commitAgain(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	m := sentAs(i, "m-1")
	f.move(k, m)
	if r := f.move(k, m); !r.Applied || r.Intent.State != ledger.StateCommitted {
		f.t.Errorf("the same commit again gave %+v", r)
	}
	if log := f.outcomes(k); log != "fenced sent" {
		f.t.Errorf("the log of a repeated commit is %q", log)
	}
	if n := len(f.receipts(k)); n != 1 {
		f.t.Errorf("a repeated commit has %d receipts", n)
	}
}

func commitLost(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.probing(k)
	_, err := f.try(k, sentAs(i, "m-1"))
	f.wants(err, ledger.ErrFenceLost)
	f.is(k, ledger.StateDispatched)
	_, err = f.try(ledger.Key{RunID: newRunID(), EffectKey: "mail:none"}, sentAs(i, "m-1"))
	f.wants(err, ledger.ErrNoIntent)
}

func commitNeedsStamp(f *fixture) {
	k := f.claim()
	i := f.fenced(k).Intent
	_, err := f.try(k, sentAs(i, "m-1"))
	f.refused(err, "no-stamp")
	m := sentAs(i, "m-1")
	m.Established = ledger.ByPerson
	_, err = f.try(k, m)
	f.refused(err, "evidence")
	m.Established = ledger.ByProbe
	f.move(k, m)
	if i := f.is(k, ledger.StateCommitted); i.Established != ledger.ByProbe {
		f.t.Errorf("established by %s", i.Established)
	}
}

func commitSecondClaimant(f *fixture) {
	a, b := f.claim(), f.claim()
	f.move(a, sentAs(f.stamped(a), "m-1"))
	i := f.stamped(b)
	r := f.move(b, sentAs(i, "m-1"))
	if r.Applied || !r.Intent.Held() {
		f.t.Errorf("a second claimant got %+v", r)
	}
	if got := f.is(b, ledger.StateDispatched); !got.Held() || got.FenceNumber == i.FenceNumber || !got.Stamped() {
		f.t.Errorf("a second claimant of evidence is %+v, want held", got)
	}
	f.is(a, ledger.StateCommitted)
	c := f.claim()
	late := f.stamped(c)
	f.probing(c)
	f.move(c, ledger.Late{Key: c, Fence: late.Fence(), Attempt: 1, Outcome: ledger.LateSent, Evidence: channel.Evidence{ID: "m-1"}})
	f.endFence(c)
	f.move(c, probeFence())
	if got := f.is(c, ledger.StateDispatched); !got.Held() {
		f.t.Errorf("late evidence that another intent has gave %+v, want held", got)
	}
	sheet := exactSheet()
	sheet.EvidenceNamesOneEffect = false
	f.use(sheet)
	for range 2 { // ids of such a channel mean nothing
		k := f.claim()
		f.move(k, sentAs(f.stamped(k), "same"))
		f.is(k, ledger.StateCommitted)
	}
}

// hostileEvidence is what outside systems have said, or could.
func hostileEvidence() map[string]channel.Evidence {
	detail := func(s string) channel.Evidence {
		return channel.Evidence{ID: "m-" + uuid.NewString(), Detail: json.RawMessage(s)}
	}
	return map[string]channel.Evidence{
		"nothing":            {},
		"not JSON":           detail("250 2.0.0 OK: queued as ABC\r\n"),
		"NUL":                detail(`{"a":"x\u0000y"}`),
		"raw NUL":            detail("\x00\x01\x02"),
		"lone surrogate":     detail(`{"a":"\ud800"}`),
		"huge number":        detail(`{"a":1e999}`),
		"invalid UTF-8":      detail("{\"a\":\"\xff\xfe\"}"),
		"deep nesting":       detail(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"ten MiB":            detail(`"` + strings.Repeat("x", 10<<20) + `"`),
		"key twice":          detail(`{"a":1,"a":2}`),
		"id not UTF-8":       {ID: "\xc3\x28 \x00"},
		"id with a NUL":      {ID: "a\x00b"},
		"id of 100 kB":       {ID: strings.Repeat("é", 50_000)},
		"id with a quote":    {ID: `'; DROP TABLE effect_intents; --`},
		"unusual characters": {ID: "\u2028\ufffe\U0001F600", Detail: json.RawMessage(`"\ufffe\ud83d\ude00"`)},
	}
}

func commitHostile(f *fixture) {
	for name, e := range hostileEvidence() {
		k := f.claim()
		m := sentAs(f.stamped(k), "")
		m.Evidence, m.Detail = e, "\x00 \xff "+name
		if _, err := f.try(k, m); err != nil {
			f.t.Errorf("%s: evidence blocked the commit: %v", name, err)
			continue
		}
		got := f.is(k, ledger.StateCommitted)
		if want := ledger.EncodeEvidence(e); !sameJSON(got.Evidence, want) {
			f.t.Errorf("%s: stored is %.200s, want %.200s", name, got.Evidence, want)
		}
		late := f.move(k, ledger.Late{Key: k, Fence: m.Fence, Attempt: 7, Outcome: ledger.LateNotSent, Evidence: e, Reason: "\x00\xff"})
		if late.Intent.State != ledger.StateCommitted {
			f.t.Errorf("%s: late evidence moved a terminal row", name)
		}
	}
}

func commitOwes(f *fixture) {
	signer := &Signer{}
	signer.Break()
	other := f.Reopen(f.t, signer)
	owing, whole := f.claim(), f.claim()
	i := f.stamped(owing)
	m := sentAs(i, uuid.NewString())
	if _, err := other.Move(f.ctx(), owing, m); err != nil {
		f.t.Fatalf("a signer that fails blocked a commit: %v", err)
	}
	f.is(owing, ledger.StateCommitted)
	f.move(whole, sentAs(f.stamped(whole), uuid.NewString()))
	rs := f.receipts(owing)
	if len(rs) != 1 || !rs[0].Owed || len(rs[0].Envelope) != 0 || rs[0].Outcome != "committed" || !strings.Contains(rs[0].Reason, "not there today") {
		f.t.Fatalf("the owed receipt is %+v", rs)
	}
	stats, err := f.Ledger.Stats(f.ctx())
	f.must(err)
	if stats.OwedReceipts != 1 {
		f.t.Errorf("stats count %d owed receipts", stats.OwedReceipts)
	}
	paid, owed, err := other.PayReceipts(f.ctx(), 10)
	if paid != 0 || owed != 1 {
		f.t.Errorf("a signer that fails paid %d, owes %d (%v)", paid, owed, err)
	}
	signer.Mend()
	paid, owed, err = other.PayReceipts(f.ctx(), 10)
	f.must(err)
	if paid != 1 || owed != 0 {
		f.t.Errorf("paid %d, owed %d", paid, owed)
	}
	rs = f.receipts(owing)
	if len(rs) != 1 || rs[0].Owed || len(rs[0].Envelope) == 0 {
		f.t.Errorf("the paid receipt is %+v", rs)
	}
	if n := len(signer.Issued()); n != 1 {
		f.t.Fatalf("it was signed %d times", n)
	}
	e := signer.Issued()[0]
	if e.EffectKey != owing.EffectKey || e.RunID != owing.RunID || e.LedgerID != f.Ledger.ID() || e.Outcome != "committed" || e.Attempt != 1 || e.At.IsZero() ||
		ledger.EvidenceID(e.ExternalRef) != m.Evidence.ID || e.FenceNumber != i.FenceNumber {
		f.t.Errorf("the receipt that was paid later says %+v", e)
	}
	none := f.Reopen(f.t, nil)
	k := f.claim()
	if _, err := none.Move(f.ctx(), k, ledger.RequestCancel{By: "ann"}); err != nil {
		f.t.Errorf("a ledger without a signer cannot move: %v", err)
	}
	if rs := f.receipts(k); len(rs) != 1 || !rs[0].Owed {
		f.t.Errorf("without a signer the receipts are %+v", rs)
	}
	_, _, err = f.Ledger.PayReceipts(f.ctx(), 10)
	f.must(err)
}

func acceptKeeps(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	r := f.move(k, ledger.Accept{Fence: i.Fence(), Evidence: channel.Evidence{ID: "queue-1"}, LookAgain: time.Hour})
	got := f.is(k, ledger.StateDispatched)
	if !got.Accepted() || ledger.EvidenceID(got.Evidence) != "queue-1" || got.Outcome() != "accepted, not final yet" {
		f.t.Errorf("accepted is %+v", got)
	}
	if d := got.ProbeAt.Sub(r.Now) - time.Hour; d < -time.Millisecond || d > time.Millisecond {
		f.t.Errorf("the next look is %s off", d)
	}
	if looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5); err != nil || len(looks) != 0 {
		f.t.Errorf("looks due now: %v, %v", looks, err)
	}
	_, err := f.try(k, sentAs(i, "m-1"))
	f.wants(err, ledger.ErrFenceLost)
	stats, err := f.Ledger.Stats(f.ctx())
	f.must(err)
	if stats.Accepted == 0 {
		f.t.Error("stats count nothing as accepted")
	}
	p := f.move(k, probeFence()).Intent
	_, err = f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofReplaySafe})
	f.refused(err, "replay-accepted")
}

func acceptThenCommit(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Accept{Fence: i.Fence(), Evidence: channel.Evidence{ID: "queue-1"}, LookAgain: 0})
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{f.channel}, 5)
	f.must(err)
	if len(looks) != 1 || looks[0] != k {
		f.t.Errorf("looks due are %v", looks)
	}
	p := f.move(k, probeFence()).Intent
	f.move(k, ledger.Probed{Fence: p.Fence(), Finding: channel.FindingAccepted, Evidence: channel.Evidence{ID: "queue-2"}, ProbeBegan: f.now(), Look: time.Minute})
	p = f.move(k, probeFence()).Intent
	f.move(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "m-1"}, Established: ledger.ByProbe})
	if got := f.is(k, ledger.StateCommitted); ledger.EvidenceID(got.Evidence) != "m-1" {
		f.t.Errorf("committed with %s", got.Evidence)
	}
	if log := f.outcomes(k); log != "fenced accepted accepted found" {
		f.t.Errorf("log is %q", log)
	}
}

func receiptsInOrder(f *fixture) {
	var keys []ledger.Key
	for range 3 {
		k := f.claim()
		f.committed(k)
		keys = append(keys, k)
	}
	var last time.Time
	seen := map[ledger.Key]bool{}
	f.must(f.Ledger.AllReceipts(f.ctx(), func(r ledger.StoredReceipt) error {
		if r.IssuedAt.Before(last) || r.Owed || len(r.Envelope) == 0 {
			f.t.Errorf("receipt %s is out of order, owed or empty", r.ID)
		}
		last = r.IssuedAt
		seen[r.Key] = true
		return nil
	}))
	for _, k := range keys {
		if !seen[k] {
			f.t.Errorf("the receipt of %s is missing", k)
		}
	}
	stop := fmt.Errorf("enough")
	f.wants(f.Ledger.AllReceipts(f.ctx(), func(ledger.StoredReceipt) error { return stop }), stop)
}
