package core

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const scope = "github.com/pawlworks/pawl/core"

// measure holds the engine's instruments: OpenTelemetry through its API only, so that a program that sets up no SDK pays nothing.
type measure struct {
	tracer          trace.Tracer
	outcomes        metric.Int64Counter
	ambiguities     metric.Int64Counter
	commitFailures  metric.Int64Counter
	fenceLosses     metric.Int64Counter
	probes          metric.Int64Counter
	claimToCommit   metric.Float64Histogram
	reconcileChecks metric.Int64Counter
}

func newMeasure(o Options) (measure, error) {
	meter := o.Meter.Meter(scope)
	m := measure{tracer: o.Tracer.Tracer(scope)}
	var errs [7]error
	m.outcomes, errs[0] = meter.Int64Counter("pawl.effects", metric.WithDescription("Intents that came to an outcome, by channel and event"))
	m.ambiguities, errs[1] = meter.Int64Counter("pawl.sends.ambiguous", metric.WithDescription("Sends without a typed answer"))
	m.commitFailures, errs[2] = meter.Int64Counter("pawl.ledger.write_failures", metric.WithDescription("Moves that the ledger could not write at the first try"))
	m.fenceLosses, errs[3] = meter.Int64Counter("pawl.fences.lost", metric.WithDescription("Outcomes whose fence was gone when they were written"))
	m.probes, errs[4] = meter.Int64Counter("pawl.probes", metric.WithDescription("Probes by channel and finding"))
	m.claimToCommit, errs[5] = meter.Float64Histogram("pawl.claim_to_commit", metric.WithUnit("s"), metric.WithDescription("From claim to commit"))
	m.reconcileChecks, errs[6] = meter.Int64Counter("pawl.reconciler.looks", metric.WithDescription("Intents that the reconciler looked at"))
	return m, errors.Join(errs[:]...)
}

func (m measure) dispatch(ctx context.Context, i ledger.Intent) (context.Context, trace.Span) {
	return m.tracer.Start(ctx, "pawl.dispatch", trace.WithAttributes(
		attribute.String("pawl.run_id", i.RunID), attribute.String("pawl.effect_key", i.EffectKey),
		attribute.String("pawl.channel", i.Channel), attribute.Int64("pawl.fence", i.FenceNumber),
	))
}

func (m measure) call(ctx context.Context, name string, a channel.Attempt) (context.Context, trace.Span) {
	return m.tracer.Start(ctx, "pawl.channel."+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("pawl.channel", a.Intent.Channel), attribute.Int("pawl.attempt", a.Number)))
}

func (m measure) outcome(ctx context.Context, i ledger.Intent, event string) {
	m.outcomes.Add(ctx, 1, metric.WithAttributes(attribute.String("channel", i.Channel), attribute.String("event", event)))
	if i.State == ledger.StateCommitted {
		m.claimToCommit.Record(ctx, i.CommittedAt.Sub(i.CreatedAt).Seconds(), metric.WithAttributes(attribute.String("channel", i.Channel)))
	}
}

func (m measure) ambiguous(ctx context.Context, i ledger.Intent) {
	m.ambiguities.Add(ctx, 1, metric.WithAttributes(attribute.String("channel", i.Channel)))
}

func (m measure) commitFailed(ctx context.Context) { m.commitFailures.Add(ctx, 1) }
func (m measure) fenceLost(ctx context.Context)    { m.fenceLosses.Add(ctx, 1) }

func (m measure) probed(ctx context.Context, i ledger.Intent, f channel.FindingKind) {
	m.probes.Add(ctx, 1, metric.WithAttributes(attribute.String("channel", i.Channel), attribute.String("finding", f.String())))
}

func (m measure) looked(ctx context.Context) { m.reconcileChecks.Add(ctx, 1) }
