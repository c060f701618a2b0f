package wire

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

func spanContext(t *testing.T, state string) trace.SpanContext {
	t.Helper()
	s, err := trace.ParseTraceState(state)
	if err != nil {
		t.Fatal(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: s,
	})
}

// across makes what the adapter sees of what the engine puts into a call.
func across(ctx context.Context) context.Context {
	out, _ := metadata.FromOutgoingContext(WithTrace(ctx))
	return FromTrace(metadata.NewIncomingContext(context.Background(), out))
}

func TestTraceContextCrossesTheBorderAndNothingElseDoes(t *testing.T) {
	secret, err := baggage.NewMember("password", "xyzzy")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	sent := spanContext(t, "vendor=1")
	ctx := trace.ContextWithSpanContext(baggage.ContextWithBaggage(context.Background(), bag), sent)
	got := across(ctx)
	if c := trace.SpanContextFromContext(got); !c.Equal(sent.WithRemote(true)) {
		t.Errorf("got %v, want %v", c, sent)
	}
	if n := baggage.FromContext(got).Len(); n != 0 {
		t.Errorf("%d members of baggage crossed", n)
	}
	out, _ := metadata.FromOutgoingContext(WithTrace(ctx))
	if len(out) != 2 {
		t.Errorf("metadata %v, want traceparent and tracestate", out)
	}
}

func TestCallWithoutATraceIsLeftAsItIs(t *testing.T) {
	if _, any := metadata.FromOutgoingContext(WithTrace(context.Background())); any {
		t.Error("metadata was made of nothing")
	}
	if c := trace.SpanContextFromContext(across(context.Background())); c.IsValid() {
		t.Errorf("got %v", c)
	}
}

func TestTraceStateThatIsTooLongIsLeftOut(t *testing.T) {
	var long []string
	for _, k := range []string{"a", "b", "c"} {
		long = append(long, k+"="+strings.Repeat("x", 200))
	}
	ctx := trace.ContextWithSpanContext(context.Background(), spanContext(t, strings.Join(long, ",")))
	c := trace.SpanContextFromContext(across(ctx))
	if !c.IsValid() || c.TraceState().Len() != 0 {
		t.Errorf("got %v, want the trace without its state", c)
	}
}

func TestBrokenTraceContextCountsAsNone(t *testing.T) {
	for name, in := range map[string]metadata.MD{
		"nonsense": metadata.Pairs("traceparent", "nonsense"),
		"zero":     metadata.Pairs("traceparent", "00-00000000000000000000000000000000-0000000000000000-01"),
		"twice": metadata.Pairs("traceparent", "00-01000000000000000000000000000000-0200000000000000-01",
			"traceparent", "00-03000000000000000000000000000000-0400000000000000-01"),
	} {
		if c := trace.SpanContextFromContext(FromTrace(metadata.NewIncomingContext(context.Background(), in))); c.IsValid() {
			t.Errorf("%s: got %v", name, c)
		}
	}
}
