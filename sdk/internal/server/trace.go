package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

const scope = "github.com/pawlworks/pawl/sdk"

// request is what the three calls of a channel have in common.
type request interface {
	GetCall() *adapterv1.Call
	GetIntent() *adapterv1.Intent
}

// begin gives the call a context with the logger that names it, and a span in the trace of the engine's call. Neither names
// anything of the payload or the tokens.
func (s *Server) begin(ctx context.Context, call string, r request) (context.Context, trace.Span) {
	provider := s.config.Tracer
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	i := r.GetIntent()
	attributes := []attribute.KeyValue{
		attribute.String("pawl.run_id", i.GetRunId()), attribute.String("pawl.effect_key", i.GetEffectKey()),
		attribute.String("pawl.channel", i.GetChannel()),
	}
	if n, ok := r.(interface{ GetNumber() int32 }); ok {
		attributes = append(attributes, attribute.Int64("pawl.attempt", int64(n.GetNumber())))
	}
	ctx, span := provider.Tracer(scope, trace.WithInstrumentationVersion(s.config.SDKVersion)).Start(
		wire.FromTrace(ctx), "pawl.adapter."+call, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	logger := s.config.Logger.With("call_id", r.GetCall().GetId(), "channel", i.GetChannel(), "run_id", i.GetRunId(), "effect_key", i.GetEffectKey())
	if c := span.SpanContext(); c.IsValid() {
		logger = logger.With("trace_id", c.TraceID().String(), "span_id", c.SpanID().String())
	}
	return WithLogger(ctx, logger), span
}

// failed marks a span with the type of what went wrong. The text stays out of it: it may repeat what the outside system was told.
func failed(span trace.Span, err error) {
	result := "failed"
	var rejected *channel.RejectedError
	var ambiguous *channel.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		result = "ambiguous"
	case errors.As(err, &rejected):
		result = "rejected"
	case channel.ProvenNotSent(err):
		result = "not_sent"
	}
	span.SetAttributes(attribute.String("pawl.result", result))
	span.SetStatus(codes.Error, result)
}
