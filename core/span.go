package core

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// Names of attributes of spans. None ever holds a payload, a token, evidence or a text of the outside system.
const (
	runIDKey     = attribute.Key("pawl.run_id")
	effectKeyKey = attribute.Key("pawl.effect_key")
	channelKey   = attribute.Key("pawl.channel")
	attemptKey   = attribute.Key("pawl.attempt")
	fenceKey     = attribute.Key("pawl.fence")
	instanceKey  = attribute.Key("pawl.instance")
	resultKey    = attribute.Key("pawl.result")
	findingKey   = attribute.Key("pawl.finding")
)

const traceParentHeader = "traceparent"

// traceParent is the W3C trace context of ctx; empty where there is none.
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParentHeader]
}

// InTrace returns ctx as it is within the trace that the intent was claimed in, whoever claimed it and however long ago: spans that are
// started with it belong to the effect. An intent without a trace leaves ctx as it is.
func InTrace(ctx context.Context, i ledger.Intent) context.Context {
	if i.TraceParent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParentHeader: i.TraceParent})
}

func attributesOf(i ledger.Intent) trace.SpanStartEventOption {
	return trace.WithAttributes(runIDKey.String(i.RunID), effectKeyKey.String(i.EffectKey), channelKey.String(i.Channel),
		attemptKey.Int(i.Attempts), fenceKey.Int64(i.FenceNumber))
}

// StartSpan starts a span of the effect, such as a person's decision about it, in the trace that the intent was claimed in. Where ctx has a
// span of another trace, the two are linked.
func StartSpan(ctx context.Context, t trace.Tracer, name string, i ledger.Intent, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	own := InTrace(ctx, i)
	o = append(o, attributesOf(i))
	if caller := trace.SpanContextFromContext(ctx); caller.IsValid() && caller.TraceID() != trace.SpanContextFromContext(own).TraceID() {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: caller}))
	}
	return t.Start(own, name, o...)
}

func (e *Engine) startSpan(ctx context.Context, name string, i ledger.Intent, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	return StartSpan(ctx, e.measure.tracer, name, i, append(o, trace.WithAttributes(instanceKey.String(e.options.Instance)))...)
}

// call starts the span of one call to the channel.
func (m measure) call(ctx context.Context, name string, i channel.Intent, attempt int) (context.Context, trace.Span) {
	return m.tracer.Start(ctx, "pawl.channel."+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		runIDKey.String(i.RunID), effectKeyKey.String(i.EffectKey), channelKey.String(i.Channel), attemptKey.Int(attempt)))
}

// moving starts the span of a move.
func (m measure) moving(ctx context.Context, i ledger.Intent, move ledger.Move) (context.Context, trace.Span) {
	return m.tracer.Start(ctx, "pawl."+moveName(move), attributesOf(i))
}

// failed marks a span with a word of ours, never with the text of an error, which may repeat what the outside system was told.
func failed(span trace.Span, word string) { span.SetStatus(codes.Error, word) }

// moveName is the type of the move in lower case: commit, abandon, put_token.
func moveName(m ledger.Move) string {
	switch m.(type) {
	case ledger.PutToken:
		return "put_token"
	case ledger.ProbeFence:
		return "probe_fence"
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", m), ".")
	return strings.ToLower(name)
}
