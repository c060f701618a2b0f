package observe_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe/observetest"
	"github.com/pawlworks/pawl/ledger"
)

func tracingTo(c *observetest.Collector) observe.Tracing {
	return observe.Tracing{Endpoint: c.URL, Ratio: 1, Headers: map[string]string{"authorization": "Bearer " + canary}}
}

// tree gives each span of a trace its place: "pawl.channel.send < pawl.dispatch < pawl.claim".
func tree(spans []observetest.Span, traceID string) (places []string) {
	byID := map[string]observetest.Span{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	for _, s := range spans {
		if s.Trace != traceID {
			continue
		}
		place := s.Name
		for up := s.Parent; up != ""; {
			above, there := byID[up]
			if !there {
				place += " < ?"
				break
			}
			place, up = place+" < "+above.Name, above.Parent
		}
		places = append(places, place)
	}
	slices.Sort(places)
	return places
}

func has(spans []observetest.Span, traceID string, want ...string) bool {
	places := tree(spans, traceID)
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(places, w) })
}

func traceOf(t *testing.T, i ledger.Intent) string {
	t.Helper()
	parts := strings.Split(i.TraceParent, "-")
	if len(parts) != 4 {
		t.Fatalf("trace_parent is %q", i.TraceParent)
	}
	return parts[1]
}

// TestOneEffectIsOneTraceAcrossTheBorder: from the claim to the evidence, the adapter's process included.
func TestOneEffectIsOneTraceAcrossTheBorder(t *testing.T) {
	t.Parallel()
	c := observetest.NewCollector(t)
	p := newPlace(t, tracingTo(c))
	p.run()
	i := p.claim(t.Context(), "effect")
	if i.State != ledger.StateCommitted {
		t.Fatalf("got %s", i.Outcome())
	}
	id := traceOf(t, i)
	spans := c.Await(t, "a whole trace", func(spans []observetest.Span) bool {
		return has(spans, id,
			"pawl.claim",
			"pawl.dispatch < pawl.claim",
			"pawl.channel.token < pawl.dispatch < pawl.claim",
			"pawl.adapter.token < pawl.channel.token < pawl.dispatch < pawl.claim",
			"pawl.channel.send < pawl.dispatch < pawl.claim",
			"pawl.adapter.send < pawl.channel.send < pawl.dispatch < pawl.claim",
			"pawl.commit < pawl.dispatch < pawl.claim")
	})
	for _, s := range spans {
		if want := map[bool]string{true: "adapter", false: "pawl"}[strings.HasPrefix(s.Name, "pawl.adapter.")]; s.Service != want {
			t.Errorf("%s comes from service %q, want %q", s.Name, s.Service, want)
		}
		if s.AuthorizationHeader != "Bearer "+canary {
			t.Errorf("%s came with authorization %q", s.Name, s.AuthorizationHeader)
		}
		if s.Name == "pawl.dispatch" && (s.Attributes["pawl.run_id"] != i.RunID || s.Attributes["pawl.effect_key"] != i.EffectKey) {
			t.Errorf("%s names %v", s.Name, s.Attributes)
		}
	}
	if bytes.Contains(c.Raw(), []byte(canary)) {
		t.Error("a payload is in the spans")
	}
	if !strings.Contains(p.log.text(), `"trace_id":"`+id+`"`) || strings.Contains(p.log.text(), canary) {
		t.Errorf("the log does not name the trace, or holds a secret: %s", p.log.text())
	}
}

// TestAProbeAfterACrashJoinsTheTrace: the adapter dies in the middle of a send, and another process of it is asked.
func TestAProbeAfterACrashJoinsTheTrace(t *testing.T) {
	t.Parallel()
	c := observetest.NewCollector(t)
	p := newPlace(t, tracingTo(c))
	p.run()
	i := p.claim(t.Context(), "die")
	if i.State != ledger.StateCommitted || i.Established != ledger.ByProbe {
		t.Fatalf("got %s by %s: %s", i.Outcome(), i.Established, p.log.text())
	}
	c.Await(t, "the trace of a recovery", func(spans []observetest.Span) bool {
		return has(spans, traceOf(t, i),
			"pawl.channel.send < pawl.dispatch < pawl.claim",
			"pawl.ambiguous < pawl.dispatch < pawl.claim",
			"pawl.reconcile < pawl.claim",
			"pawl.channel.probe < pawl.reconcile < pawl.claim",
			"pawl.adapter.probe < pawl.channel.probe < pawl.reconcile < pawl.claim",
			"pawl.commit < pawl.reconcile < pawl.claim")
	})
	m := observetest.Scrape(t, p.observe.MetricsHandler())
	if m[`pawl_adapter_restarts_total{channel="file/audit"}`] != 1 || m[`pawl_probes_total{channel="file/audit",finding="sent"}`] != 1 ||
		m[`pawl_time_to_resolve_seconds_count{channel="file/audit"}`] != 1 || m[`pawl_sends_ambiguous_total{channel="file/audit"}`] != 1 {
		t.Errorf("measured %v", m)
	}
}

// TestACallersDecisionAboutItsTraceCounts: a trace that is not sampled stays so across ledger and border.
func TestACallersDecisionAboutItsTraceCounts(t *testing.T) {
	t.Parallel()
	c := observetest.NewCollector(t)
	p := newPlace(t, tracingTo(c))
	stop := p.run()
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}, Remote: true})
	i := p.claim(trace.ContextWithSpanContext(t.Context(), unsampled), "quiet")
	if traceOf(t, i) != unsampled.TraceID().String() {
		t.Errorf("trace_parent is %q", i.TraceParent)
	}
	stop()
	must(t, p.observe.Close(t.Context()))
	if got := tree(c.Spans(), unsampled.TraceID().String()); len(got) > 0 {
		t.Errorf("spans of a trace that is not sampled: %v", got)
	}
}

func TestACollectorThatIsAwayStopsNothingAndTheLogHasNoHeader(t *testing.T) {
	t.Parallel()
	p := newPlace(t, observe.Tracing{Endpoint: "http://127.0.0.1:1", Ratio: 1, Headers: map[string]string{"authorization": canary}})
	p.run()
	if i := p.claim(t.Context(), "effect"); i.State != ledger.StateCommitted {
		t.Fatalf("got %s", i.Outcome())
	}
	if strings.Contains(p.log.text(), canary) {
		t.Errorf("a header is in the log: %s", p.log.text())
	}
}

func TestTracingOptionsNameTheirFault(t *testing.T) {
	for want, o := range map[string]observe.Tracing{
		"endpoint": {Endpoint: "localhost:4318"},
		"password": {Endpoint: "http://u:" + canary + "@h"},
		"ratio":    {Endpoint: "http://h", Ratio: 2},
	} {
		_, err := observe.Start(t.Context(), observe.Options{Tracing: o})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: err is %v", want, err)
		}
	}
}
