package ledgertest

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
)

func traceTopic() topic {
	return topic{"trace context", []testCase{
		{name: "is kept with the intent and never changes", run: traceKept},
		{name: "given by plain SQL in another form is read as none", run: tracePlainSQL},
	}}
}

const aTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func traceKept(f *fixture) {
	traced := f.newClaim(func(c *ledger.Claim) { c.TraceParent = aTrace })
	k := f.claimAll(traced)[0]
	if got := f.read(k).TraceParent; got != aTrace {
		f.t.Errorf("claimed with trace %q, kept %q", aTrace, got)
	}
	traced.TraceParent = strings.Replace(aTrace, "4bf9", "4bf8", 1)
	results, err := f.tryClaim(traced)
	f.must(err)
	if r := results[0]; r.Status != ledger.ClaimDeduplicated || r.Intent.TraceParent != aTrace {
		f.t.Errorf("claimed again in another trace: %s, trace %q", r.Status, r.Intent.TraceParent)
	}
	broken, none := f.claim(func(c *ledger.Claim) { c.TraceParent = aTrace + "-more" }), f.claim()
	if a, b := f.read(broken).TraceParent, f.read(none).TraceParent; a != "" || b != "" {
		f.t.Errorf("a broken trace is kept as %q, none as %q", a, b)
	}
	if d := f.fenced(k); d.Intent.TraceParent != aTrace {
		f.t.Errorf("a dispatch has trace %q", d.Intent.TraceParent)
	}
	for _, k := range []ledger.Key{k, none} {
		for _, value := range []string{quote(strings.Replace(aTrace, "4bf9", "4bf7", 1)), "''"} {
			if f.attempt("", "UPDATE effect_intents SET trace_parent = "+value+where(k)) == nil {
				f.t.Errorf("trace_parent was changed to %s", value)
			}
		}
	}
	if f.attempt("", "UPDATE effect_intents SET trace_parent = NULL"+where(k)) == nil {
		f.t.Error("trace_parent was taken away")
	}
	f.committed(none)
}

func tracePlainSQL(f *fixture) {
	for _, c := range []struct{ given, want string }{{aTrace, aTrace}, {"someone's own form", ""}} {
		k := ledger.Key{RunID: f.run, EffectKey: "mail:" + uuid.NewString()}
		f.must(f.Exec(f.ctx(), fmt.Sprintf(
			"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, trace_parent) VALUES (%s, %s, %s, '{}', %s, %s)",
			quote(k.RunID), quote(k.EffectKey), quote(f.channel), quote("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"), quote(c.given))))
		if got := f.read(k).TraceParent; got != c.want {
			f.t.Errorf("plain SQL gave %q, read as %q", c.given, got)
		}
	}
}
