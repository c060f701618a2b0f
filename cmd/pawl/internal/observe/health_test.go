package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/core"
)

type pulse core.Pulse

func (p pulse) Pulse() core.Pulse { return core.Pulse(p) }

func TestHealthSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	beating := pulse{Running: true, LastBeat: time.Now()}
	stuck := pulse{Loops: []core.Loop{
		{Name: "dispatch", Channel: "mail/shop", Silent: time.Hour, Bound: time.Minute},
		{Name: "keep", Silent: time.Second, Bound: time.Minute},
	}}
	closed := make(chan struct{})
	close(closed)
	adapters := func(all map[string]observe.Adapter) observe.Check {
		return observe.Adapters(func() map[string]observe.Adapter { return all })
	}
	for name, tt := range map[string]struct {
		checks []observe.Check
		code   int
		want   []string
		never  string
	}{
		"all is well": {checks: []observe.Check{observe.Loops(beating), observe.Heartbeat(beating, time.Hour), observe.Stopping(nil),
			observe.Answers(func(context.Context) error { return nil }), adapters(map[string]observe.Adapter{"a": {Ready: true}})},
			code: http.StatusOK, want: []string{`"status":"ok"`, `"channel":"a"`}},
		"a loop stands still":  {checks: []observe.Check{observe.Loops(stuck)}, code: http.StatusServiceUnavailable, want: []string{`loop dispatch`, `mail/shop`, `no progress for 1h0m0s`}},
		"an old heartbeat":     {checks: []observe.Check{observe.Heartbeat(pulse{Running: true, LastBeat: time.Now().Add(-time.Hour)}, time.Second)}, code: http.StatusServiceUnavailable, want: []string{"the last heartbeat 1h"}},
		"no heartbeat yet":     {checks: []observe.Check{observe.Heartbeat(pulse{Running: true}, time.Second)}, code: http.StatusServiceUnavailable, want: []string{"does not run"}},
		"an engine that stops": {checks: []observe.Check{observe.Heartbeat(pulse{Running: true, Stopping: true, LastBeat: time.Now()}, time.Hour)}, code: http.StatusServiceUnavailable, want: []string{"is stopping"}},
		"a process that stops": {checks: []observe.Check{observe.Stopping(closed)}, code: http.StatusServiceUnavailable, want: []string{"asked to stop"}},
		"a ledger without answer, whose words stay here": {checks: []observe.Check{observe.Answers(func(context.Context) error { return errors.New(canary) })},
			code: http.StatusServiceUnavailable, want: []string{"the ledger does not answer"}, never: canary},
		"a ledger that never answers": {checks: []observe.Check{observe.Answers(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })},
			code: http.StatusServiceUnavailable, want: []string{"does not answer"}},
		"all adapters down: claims are still taken": {checks: []observe.Check{adapters(map[string]observe.Adapter{"a": {}, "b": {Quarantined: true}})},
			code: http.StatusOK, want: []string{`"status":"degraded"`, `"channel":"a","status":"degraded"`, `"channel":"b","status":"degraded"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			observe.Health(tt.checks...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != tt.code || !json.Valid(w.Body.Bytes()) {
				t.Errorf("answers %d %s", w.Code, w.Body)
			}
			for _, want := range tt.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s does not say %q", w.Body, want)
				}
			}
			if tt.never != "" && strings.Contains(w.Body.String(), tt.never) {
				t.Errorf("%s says %q", w.Body, tt.never)
			}
		})
	}
}

// TestAnEngineThatRunsIsLiveAndReadyUntilItStops looks at a real one.
func TestAnEngineThatRunsIsLiveAndReadyUntilItStops(t *testing.T) {
	t.Parallel()
	p := newPlace(t, observe.Tracing{})
	stop := p.run()
	p.claim(t.Context(), "effect")
	code := func(checks ...observe.Check) (int, string) {
		w := httptest.NewRecorder()
		observe.Health(checks...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, w.Body.String()
	}
	if c, body := code(observe.Loops(p.engine), observe.Heartbeat(p.engine, 10*time.Second)); c != http.StatusOK {
		t.Errorf("answers %d %s", c, body)
	} else {
		for _, loop := range []string{"loop dispatch", "loop reconcile", "loop heartbeat", "loop keep"} {
			if !strings.Contains(body, loop) {
				t.Errorf("%s does not name the %s", body, loop)
			}
		}
	}
	stop()
	if c, body := code(observe.Heartbeat(p.engine, 10*time.Second)); c != http.StatusServiceUnavailable {
		t.Errorf("after the stop it answers %d %s", c, body)
	}
}

func TestLogRecordsNameTheirTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := slog.New(observe.LogHandler(slog.NewJSONHandler(&out, nil))).With("a", 1)
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	l.InfoContext(trace.ContextWithSpanContext(t.Context(), c), "in")
	l.InfoContext(t.Context(), "out")
	in, rest, _ := strings.Cut(out.String(), "\n")
	if !strings.Contains(in, `"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`) || !strings.Contains(in, `"a":1`) || strings.Contains(rest, "trace_id") {
		t.Errorf("logged %s", out.String())
	}
}
