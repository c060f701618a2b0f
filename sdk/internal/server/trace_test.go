package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
	secret  = "xyzzy"
)

// traced is a server with spans and a log of its own.
func traced(t *testing.T, ch channel.Channel) (*Server, *tracetest.InMemoryExporter, *bytes.Buffer) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	s := configured(t, &ground{}, true, ch)
	var log bytes.Buffer
	s.config.Tracer, s.config.Logger = provider, slog.New(slog.NewJSONHandler(&log, nil))
	return s, spans, &log
}

func TestEachCallIsASpanInTheTraceOfTheEngine(t *testing.T) {
	var inside trace.SpanContext
	s, spans, log := traced(t, scripted{
		send: func(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
			inside = trace.SpanContextFromContext(ctx)
			Logger(ctx).Info("sending")
			if err := a.Begin(); err != nil {
				return channel.Outcome{}, err
			}
			return channel.Delivered(channel.Evidence{ID: secret, Detail: json.RawMessage(`"` + secret + `"`)}), nil
		},
		probe: func() channel.Finding { return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: secret}) },
		token: func() (channel.Token, error) { return channel.Token{Data: []byte(secret)}, nil },
	})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", parent))
	intent := &adapterv1.Intent{RunId: "run", EffectKey: "toy:one", Channel: "toy", Payload: []byte(`"` + secret + `"`)}
	call := func() *adapterv1.Call {
		return &adapterv1.Call{Id: wire.NewCallID(), NotAfterBootNs: deadline, NotAfterWallNs: deadline}
	}
	if _, err := (calls{server: s}).IdempotencyToken(ctx, &adapterv1.IdempotencyTokenRequest{Call: call(), Intent: intent}); err != nil {
		t.Fatal(err)
	}
	if _, err := (calls{server: s}).Send(ctx, &adapterv1.SendRequest{Call: call(), Intent: intent, Number: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := (calls{server: s}).Probe(ctx, &adapterv1.ProbeRequest{Call: call(), Intent: intent, Number: 3}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, span := range spans.GetSpans() {
		names = append(names, span.Name)
		if span.SpanContext.TraceID().String() != traceID || span.Parent.SpanID().String() != "b7ad6b7169203331" || !span.Parent.IsRemote() {
			t.Errorf("%s: in trace %s below %s", span.Name, span.SpanContext.TraceID(), span.Parent.SpanID())
		}
		text := fmt.Sprint(span.Attributes, span.Events, span.Status)
		if strings.Contains(text, secret) {
			t.Errorf("%s holds payload, token or evidence: %s", span.Name, text)
		}
		if span.Name == "pawl.adapter.send" {
			if !inside.Equal(span.SpanContext) {
				t.Errorf("the channel was given span %v, want %v", inside, span.SpanContext)
			}
			if want := "begin"; len(span.Events) != 1 || span.Events[0].Name != want {
				t.Errorf("events %v, want %s", span.Events, want)
			}
			for _, want := range []string{"run", "toy:one", "delivered", "{3}", "{true}"} {
				if !strings.Contains(fmt.Sprint(values(span)), want) {
					t.Errorf("attributes %v, want %s among them", values(span), want)
				}
			}
		}
	}
	if got := strings.Join(names, " "); got != "pawl.adapter.token pawl.adapter.send pawl.adapter.probe" {
		t.Errorf("spans %s", got)
	}
	if !strings.Contains(log.String(), `"trace_id":"`+traceID+`"`) || !strings.Contains(log.String(), `"span_id":"`+inside.SpanID().String()+`"`) {
		t.Errorf("the log does not name the trace: %s", log)
	}
}

func values(span tracetest.SpanStub) (all []string) {
	for _, a := range span.Attributes {
		all = append(all, fmt.Sprintf("{%v}", a.Value.AsInterface()), fmt.Sprint(a.Value.AsInterface()))
	}
	return all
}

func TestSpanOfAFailureHoldsItsTypeAndNoText(t *testing.T) {
	for want, err := range map[string]error{
		"not_sent":  channel.NotSent(errors.New(secret)),
		"rejected":  channel.Rejected(secret, errors.New(secret)),
		"ambiguous": channel.Ambiguous(secret, errors.New(secret)),
	} {
		s, spans, _ := traced(t, scripted{send: func(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
			return channel.Outcome{}, errors.Join(a.Begin(), err)
		}})
		send(t, t.Context(), s)
		got := spans.GetSpans()
		if len(got) != 1 || got[0].Status.Description != want || strings.Contains(fmt.Sprint(got[0].Attributes, got[0].Events, got[0].Status), secret) {
			t.Errorf("%s: spans %+v", want, got)
		}
	}
}
