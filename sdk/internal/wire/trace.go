package wire

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
)

const (
	traceParentKey = "traceparent"
	traceStateKey  = "tracestate"
	// maxTraceState bounds the vendors' part of a trace context, in bytes: the size that every W3C implementation passes on.
	maxTraceState = 512
)

// traceContext is the W3C form, and only that: no baggage crosses the border, which could hold anything.
var traceContext = propagation.TraceContext{}

// WithTrace puts the trace context of ctx into the call's metadata. Without one the call is left as it is.
func WithTrace(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	parent := carrier[traceParentKey]
	if parent == "" {
		return ctx
	}
	ctx = metadata.AppendToOutgoingContext(ctx, traceParentKey, parent)
	if state := carrier[traceStateKey]; state != "" && len(state) <= maxTraceState {
		ctx = metadata.AppendToOutgoingContext(ctx, traceStateKey, state)
	}
	return ctx
}

// FromTrace returns ctx with the trace context that came with the call. A broken one counts as none.
func FromTrace(ctx context.Context) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	carrier := propagation.MapCarrier{}
	if parent := in.Get(traceParentKey); len(parent) == 1 {
		carrier[traceParentKey] = parent[0]
	}
	if state := in.Get(traceStateKey); len(state) == 1 && len(state[0]) <= maxTraceState {
		carrier[traceStateKey] = state[0]
	}
	return traceContext.Extract(ctx, carrier)
}
