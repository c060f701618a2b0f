package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// rare is a ledger on which everything that hardly ever happens happens once.
type rare struct {
	ledger.Ledger
	mended, paid, reclaimed, alarmed atomic.Bool
	done                             chan struct{} // closed when all of it has
}

func (r *rare) once(b *atomic.Bool) bool {
	first := !b.Swap(true)
	if first && r.mended.Load() && r.paid.Load() && r.reclaimed.Load() && r.alarmed.Load() {
		close(r.done)
	}
	return first
}

func (r *rare) Scan(ctx context.Context, after ledger.Key, limit int) (ledger.ScanResult, error) {
	page, err := r.Ledger.Scan(ctx, after, limit)
	if r.once(&r.mended) {
		page.Repaired = 3
	}
	return page, err
}

func (r *rare) PayReceipts(ctx context.Context, limit int) (paid, owed int, err error) {
	if r.once(&r.paid) {
		return 2, 0, nil
	}
	return r.Ledger.PayReceipts(ctx, limit)
}

func (r *rare) ReclaimDead(ctx context.Context, o fence.ReclaimOptions) ([]fence.Run, error) {
	if r.once(&r.reclaimed) {
		return []fence.Run{{ID: "run", Status: fence.StatusReady}}, nil
	}
	return r.Ledger.ReclaimDead(ctx, o)
}

func (r *rare) Move(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	result, err := r.Ledger.Move(ctx, k, m)
	if _, commit := m.(ledger.Commit); commit && err == nil && r.once(&r.alarmed) {
		result.Alarm = "evidence contradicts the end"
	}
	return result, err
}

// TestMeasurementsKeepTheirNames: alerts and dashboards are written on them.
func TestMeasurementsKeepTheirNames(t *testing.T) {
	t.Parallel()
	var o observed
	everything(t, newBench(t, newWorld(mayAccept())), &o)
	seldom(t, &o.meters)
	instruments := map[string][]string{
		"pawl.alarms":                 {"channel"},
		"pawl.answers":                {"channel", "result"},
		"pawl.attempts":               {"channel"},
		"pawl.configuration_faults":   {"channel"},
		"pawl.claim_to_commit":        {"channel"},
		"pawl.claims":                 {"channel", "result"},
		"pawl.effects":                {"channel", "event"},
		"pawl.fences.lost":            {"channel"},
		"pawl.in_flight":              {"channel", "doing"},
		"pawl.late_evidence":          {"channel", "outcome"},
		"pawl.ledger.write_failures":  {"move"},
		"pawl.probe.duration":         {"channel"},
		"pawl.probes":                 {"channel", "finding"},
		"pawl.queue.mended":           nil,
		"pawl.receipts.paid":          nil,
		"pawl.reconciler.looks":       {"channel"},
		"pawl.reopenings":             {"channel", "proof"},
		"pawl.runs.reclaimed":         {"status"},
		"pawl.send.duration":          {"channel"},
		"pawl.sends.ambiguous":        {"channel"},
		"pawl.starts":                 {"channel"},
		"pawl.starts.without_attempt": {"channel"},
		"pawl.time_to_resolve":        {"channel"},
	}
	used, made := o.meters.measured()
	var want []string
	for name, keys := range instruments {
		want = append(want, name)
		if got := o.meters.keys(name); !slices.Equal(got, keys) {
			t.Errorf("%s has attributes %v, want %v", name, got, keys)
		}
	}
	slices.Sort(want)
	if !slices.Equal(slices.Compact(made), want) || !slices.Equal(used, want) {
		t.Errorf("instruments made  %v\nwith measurements %v\nwant              %v", made, used, want)
	}
	if !slices.Equal(slices.Compact(o.meters.scopes), []string{"github.com/pawlworks/pawl/core"}) {
		t.Errorf("scopes %v", o.meters.scopes)
	}
	spansOf(t, &o)
}

// seldom adds what [everything] has not: a paused channel, a mended queue, a paid receipt, a reclaimed run, an alarm.
func seldom(t *testing.T, m *meters) {
	w := newWorld(exactSheet)
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		if strings.Contains(string(a.Intent.Payload), "misconfigured") {
			return channel.Outcome{}, &channel.NotSentError{Configuration: true, Err: errors.New("535 authentication failed")}
		}
		return channel.Delivered(channel.Evidence{ID: a.Intent.EffectKey}), nil
	}
	b := newBench(t, w)
	r := &rare{Ledger: b.ledger, done: make(chan struct{})}
	b.ledger = r
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.Meter, o.ReclaimRuns = m, true })
	stop := b.start(e)
	b.ended(e, b.claimed(e, b.claim("effect")))
	k := b.claimed(e, b.claim("misconfigured"))
	b.until(k, "reopened", func(i ledger.Intent) bool { return i.State == ledger.StateIntent && i.Attempts == 1 })
	select {
	case <-r.done:
	case <-inTime(t).Done():
		t.Fatal("the engine did not do everything")
	}
	stop() // what was done is measured now
}

// spansOf looks at the shape of the traces, and that they hold no secret.
func spansOf(t *testing.T, o *observed) {
	t.Helper()
	spans := o.spans.GetSpans()
	byID := map[oteltrace.SpanID]string{}
	for _, s := range spans {
		byID[s.SpanContext.SpanID()] = s.Name
	}
	seen := map[string]bool{}
	for _, s := range spans {
		seen[s.Name+" in "+byID[s.Parent.SpanID()]] = true
		if text := fmt.Sprint(s.Attributes, s.Events, s.Status); strings.Contains(text, secret) {
			t.Errorf("a payload, token or evidence is in the span %s: %s", s.Name, text)
		}
	}
	want := []string{
		"pawl.claim in ", "pawl.dispatch in pawl.claim", "pawl.reconcile in pawl.claim",
		"pawl.channel.token in pawl.dispatch", "pawl.channel.send in pawl.dispatch", "pawl.commit in pawl.dispatch",
		"pawl.accept in pawl.dispatch", "pawl.abandon in pawl.dispatch", "pawl.reopen in pawl.dispatch", "pawl.ambiguous in pawl.dispatch",
		"pawl.late in pawl.dispatch",
		"pawl.channel.probe in pawl.reconcile", "pawl.commit in pawl.reconcile", "pawl.hold in pawl.reconcile",
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("no span %q among %v", w, seen)
		}
		delete(seen, w)
	}
	delete(seen, "pawl.probed in pawl.reconcile") // how often a look settles nothing is a matter of time
	if len(seen) > 0 {
		t.Errorf("further spans %v", seen)
	}
}

// TestClaimsAreCountedByWhatTheyCameTo: also those that were rolled back with another, and those of channels that nobody knows.
func TestClaimsAreCountedByWhatTheyCameTo(t *testing.T) {
	t.Parallel()
	var m meters
	b := newBench(t, newWorld(exactSheet))
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.Meter = &m })
	ctx := t.Context()
	one, two := b.claim("one"), b.claim("two")
	for range 2 {
		if _, err := e.Claim(ctx, one); err != nil {
			t.Fatal(err)
		}
	}
	other := one
	other.Payload = []byte(`{"name":"changed"}`)
	var conflict *ledger.KeyConflictError
	if _, err := e.Claim(ctx, two, other); !errors.As(err, &conflict) {
		t.Fatalf("err is %v", err)
	}
	for n := range 3 {
		stray := b.claim(fmt.Sprint("stray", n), func(c *ledger.Claim) { c.Channel = fmt.Sprintf("test/stray-%d", n) })
		if _, err := e.Claim(ctx, stray); !errors.Is(err, ledger.ErrUnknownChannel) {
			t.Fatalf("err is %v", err)
		}
	}
	var got []string
	for _, set := range m.points["pawl.claims"] {
		result, _ := set.Value("result")
		on, _ := set.Value("channel")
		got = append(got, on.AsString()+" "+result.AsString())
	}
	want := []string{"test/one new", "test/one deduplicated", "test/one conflict", "other refused", "other refused", "other refused"}
	if !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
