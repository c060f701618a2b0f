package core

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/ledger"
)

// What a claim came to, besides the [ledger.ClaimStatus]es.
const (
	claimRefused = "refused" // by its form, its channel or its lease: the same again
	claimFailed  = "failed"  // the ledger did not answer, or asked to run the transaction again
	otherChannel = "other"   // stands for a channel that this engine does not know: callers must not make label values
)

// claim claims in a transaction and a span of its own, and counts.
func (e *Engine) claim(ctx context.Context, claims ...ledger.Claim) ([]ledger.ClaimResult, error) {
	ctx, span := e.measure.tracer.Start(ctx, "pawl.claim", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.Int("pawl.claims", len(claims))))
	defer span.End()
	if len(claims) == 1 {
		span.SetAttributes(runIDKey.String(claims[0].RunID), effectKeyKey.String(claims[0].EffectKey), channelKey.String(claims[0].Channel))
	}
	results, err := Claim(ctx, e.ledger, claims...)
	e.countClaims(ctx, claims, results, err)
	if err != nil {
		span.SetStatus(codes.Error, refusal(err))
	}
	return results, err
}

// countClaims counts what was taken; of what was rolled back it counts the conflicts, or why nothing was taken.
func (e *Engine) countClaims(ctx context.Context, claims []ledger.Claim, results []ledger.ClaimResult, err error) {
	var conflict *ledger.KeyConflictError
	conflicts := errors.As(err, &conflict)
	for n, c := range claims {
		result := refusal(err)
		if (err == nil || conflicts) && n < len(results) {
			result = string(results[n].Status)
		}
		if conflicts && result != string(ledger.ClaimConflict) { // rolled back with the one that conflicts
			continue
		}
		name := c.Channel
		if e.channels.get(name) == nil {
			name = otherChannel
		}
		e.measure.claims.Add(ctx, 1, onChannelWith(name, "result", result))
	}
}

// refusal tells a claim that will always be refused from one that was not answered.
func refusal(err error) string {
	var invalid *ledger.InvalidError
	var refused *ledger.RefusedError
	var conflict *ledger.KeyConflictError
	switch {
	case errors.As(err, &conflict):
		return string(ledger.ClaimConflict)
	case errors.As(err, &invalid), errors.As(err, &refused), errors.Is(err, ledger.ErrChannelOff), errors.Is(err, ledger.ErrUnknownChannel), lost(err):
		return claimRefused
	}
	return claimFailed
}

// inTrace gives each claim the trace of ctx, unless it has one of its own. The caller's slice is left as it is.
func inTrace(ctx context.Context, claims []ledger.Claim) []ledger.Claim {
	parent := traceParent(ctx)
	if parent == "" {
		return claims
	}
	own := make([]ledger.Claim, len(claims))
	copy(own, claims)
	for n := range own {
		if own[n].TraceParent == "" {
			own[n].TraceParent = parent
		}
	}
	return own
}
