package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// secret is in every payload, token and piece of evidence of these tests, and must be nowhere else.
const secret = "xyzzy"

// lines collects what is logged as JSON.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// observed is an engine that has a log, spans and measurements of its own.
type observed struct {
	log    lines
	spans  *tracetest.InMemoryExporter
	meters meters
}

func (o *observed) option(t *testing.T) option {
	o.spans = tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(o.spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return func(options *core.Options, _ *core.ChannelOptions) {
		options.Tracer, options.Meter = provider, &o.meters
		options.Logger = slog.New(slog.NewJSONHandler(&o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// everything goes through a life with every turn that is logged or measured: sent, not sent, refused, failed outside, accepted, ambiguous
// and found, held, abandoned, late, and a ledger that is away for a moment.
func everything(t *testing.T, b *bench, o *observed) {
	w := b.world
	var noToken atomic.Bool
	w.token = func(r channel.TokenRequest) (channel.Token, error) {
		if strings.Contains(string(r.Intent.Payload), "no token") && !noToken.Swap(true) {
			return channel.Token{}, errors.New("busy")
		}
		return channel.Token{Data: []byte(secret + r.Intent.EffectKey), Hint: json.RawMessage(`"` + secret + `"`)}, nil
	}
	evidence := func(a channel.Attempt) channel.Evidence {
		return channel.Evidence{ID: secret + a.Intent.EffectKey, Detail: json.RawMessage(`{"said":"` + secret + `"}`)}
	}
	f := &failing{Ledger: b.ledger}
	b.ledger = f
	sending, release := make(chan struct{}), make(chan struct{})
	is := func(a channel.Attempt, name string) bool {
		return strings.Contains(string(a.Intent.Payload), `"`+name+`"`)
	}
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		switch {
		case is(a, "not sent") && n == 1:
			return channel.Outcome{}, channel.NotSent(errors.New("busy"))
		case is(a, "refused"):
			return channel.Outcome{}, channel.Rejected("550", errors.New("no such user"))
		case is(a, "failed outside"):
			return channel.FailedOutside(evidence(a), "reverted"), nil
		case is(a, "accepted"):
			return channel.Accepted(evidence(a), time.Millisecond), nil
		case is(a, "found"), is(a, "held"):
			return channel.Outcome{}, errors.New("lost")
		case is(a, "ledger away"):
			f.down.Store(true)
			time.AfterFunc(100*time.Millisecond, func() { f.down.Store(false) })
		case is(a, "late"):
			close(sending)
			<-release
		}
		return channel.Delivered(evidence(a)), nil
	}
	w.probe = func(a channel.Attempt) (channel.Finding, error) {
		if is(a, "held") || is(a, "late") {
			return channel.SentFinding(channel.MatchHeuristic, evidence(a)), nil
		}
		return channel.SentFinding(channel.MatchExact, evidence(a)), nil
	}
	e := b.engine(o.option(t), named("one"))
	stop := b.start(e)
	claim := func(name string) ledger.Key {
		return b.claimed(e, b.claim(name, func(c *ledger.Claim) {
			c.Payload = fmt.Appendf(nil, `{"body":%q,"name":%q}`, secret, name)
		}))
	}
	for _, name := range []string{"sent", "not sent", "no token", "refused", "failed outside", "accepted", "found", "held", "ledger away"} {
		b.ended(e, claim(name))
	}
	late := claim("late")
	<-sending
	other := b.engine(named("two"))
	b.start(other)
	b.until(late, "held by the other", func(i ledger.Intent) bool { return i.Held() })
	close(release)
	b.until(late, "committed", func(i ledger.Intent) bool { return i.State == ledger.StateCommitted })
	stop()
}

func mayAccept() channel.Sheet {
	s := exactSheet
	s.MayAccept, s.FinalWithin = true, channel.Duration(time.Minute)
	return s
}

func TestLogEventsAreThoseThatAreNamedAndHoldNoSecret(t *testing.T) {
	t.Parallel()
	var o observed
	everything(t, newBench(t, newWorld(mayAccept())), &o)
	named, seen := eventNames(t), map[string]bool{}
	for line := range strings.Lines(o.log.text()) {
		if strings.Contains(line, secret) {
			t.Errorf("a payload, token or evidence is in the log: %s", line)
		}
		var record struct {
			Msg      string
			RunID    string `json:"run_id"`
			Key      string `json:"effect_key"`
			Instance string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if seen[record.Msg] = true; !slices.Contains(named, record.Msg) {
			t.Errorf("%q is no name of event.go", record.Msg)
		}
		if record.Instance != "one" {
			t.Errorf("a record of no instance: %s", line)
		}
		if strings.HasPrefix(record.Msg, "effect.") && (record.RunID == "" || record.Key == "") {
			t.Errorf("a record of no intent: %s", line)
		}
	}
	for _, want := range []string{
		core.EventStarted, core.EventStopping, core.EventStopped, core.EventFenced, core.EventSent, core.EventAccepted, core.EventNotSent,
		core.EventRejected, core.EventFailedOutside, core.EventAmbiguous, core.EventHeld, core.EventLate, core.EventLedger, core.EventLedgerBack,
	} {
		if !seen[want] {
			t.Errorf("%s was not logged", want)
		}
	}
}

// eventNames reads the constants of event.go.
func eventNames(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	if len(names) < 20 {
		t.Fatalf("only %d names", len(names))
	}
	return names
}

// TestEnginesShareNoTelemetry has two engines in one process, each with providers of its own, and the global ones untouched.
func TestEnginesShareNoTelemetry(t *testing.T) {
	t.Parallel()
	tracer, meter := otel.GetTracerProvider(), otel.GetMeterProvider()
	var one, two observed
	b := newBench(t, newWorld(exactSheet))
	first := b.engine(one.option(t), named("one"))
	b.engine(two.option(t), named("two"))
	if o, err := first.Do(inTime(t), b.claim("effect")); err != nil || o.Text != "committed" {
		t.Fatal(o.Text, err)
	}
	if used, _ := two.meters.measured(); len(two.spans.GetSpans()) != 0 || len(used) != 0 || two.log.text() != "" {
		t.Errorf("the other engine has %d spans, measured %v, logged %s", len(two.spans.GetSpans()), used, two.log.text())
	}
	if len(one.spans.GetSpans()) == 0 {
		t.Error("the engine has no spans")
	}
	if otel.GetTracerProvider() != tracer || otel.GetMeterProvider() != meter {
		t.Error("the global providers were changed")
	}
}
