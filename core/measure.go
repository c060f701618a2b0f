package core

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const scope = "github.com/pawlworks/pawl/core"

// measure holds the engine's instruments: OpenTelemetry through its API only, so that a program that sets up no SDK pays nothing. No
// attribute is a run, a key or anything else that grows without end: channels are those of the ledger, and all other values are of
// closed sets.
type measure struct {
	tracer trace.Tracer

	claims, starts, fruitless, attempts, answers, ambiguities metric.Int64Counter
	outcomes, reopenings, late, alarms                        metric.Int64Counter
	looks, probes                                             metric.Int64Counter
	writeFailures, fenceLosses                                metric.Int64Counter
	receiptsPaid, queueMended, runsReclaimed, pauses          metric.Int64Counter
	inFlight                                                  metric.Int64UpDownCounter
	claimToCommit, sendDuration, probeDuration, timeToResolve metric.Float64Histogram
}

func newMeasure(o Options) (measure, error) {
	meter := o.Meter.Meter(scope, metric.WithInstrumentationVersion(o.Version))
	m := measure{tracer: o.Tracer.Tracer(scope, trace.WithInstrumentationVersion(o.Version))}
	var faults []error
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, help string
	}{
		{&m.claims, "pawl.claims", "Claims made through this process, by channel and result"},
		{&m.starts, "pawl.starts", "Fences taken for a send"},
		{&m.fruitless, "pawl.starts.without_attempt", "Starts that ended before anything was handed to the adapter: no token, no stamp, or a dead process"},
		{&m.attempts, "pawl.attempts", "Attempts that were stamped and handed to the adapter"},
		{&m.answers, "pawl.answers", "Answers of the adapter to an attempt, by result"},
		{&m.ambiguities, "pawl.sends.ambiguous", "Attempts without a typed answer: they may have taken effect, and are found out"},
		{&m.outcomes, "pawl.effects", "What intents came to, by the name of the log event"},
		{&m.reopenings, "pawl.reopenings", "Dispatched intents that may be sent again, by the proof that makes it safe"},
		{&m.late, "pawl.late_evidence", "Evidence handed in by a worker whose fence was gone, by what it says"},
		{&m.alarms, "pawl.alarms", "Evidence that contradicts an end: a person must look"},
		{&m.looks, "pawl.reconciler.looks", "Intents that the reconciler looked at"},
		{&m.probes, "pawl.probes", "Questions to the outside system, by finding"},
		{&m.writeFailures, "pawl.ledger.write_failures", "Moves that the ledger did not take at a try, by move; each is tried again"},
		{&m.fenceLosses, "pawl.fences.lost", "Writes that came too late: the fence was gone"},
		{&m.receiptsPaid, "pawl.receipts.paid", "Owed receipts that were issued"},
		{&m.queueMended, "pawl.queue.mended", "Rows of the dispatch queue that the scan had to mend"},
		{&m.runsReclaimed, "pawl.runs.reclaimed", "Runs of dead workers that were set ready or quarantined, by status"},
		{&m.pauses, "pawl.configuration_faults", "Channels paused by the engine because the adapter calls their configuration at fault"},
	} {
		var err error
		*c.to, err = meter.Int64Counter(c.name, metric.WithDescription(c.help))
		faults = append(faults, err)
	}
	var err error
	m.inFlight, err = meter.Int64UpDownCounter("pawl.in_flight", metric.WithDescription("Sends and looks under way in this process"))
	faults = append(faults, err)
	for _, h := range []struct {
		to         *metric.Float64Histogram
		name, help string
		bounds     []float64
	}{
		{&m.claimToCommit, "pawl.claim_to_commit", "From the claim to the commit, on the ledger's clock", long},
		{&m.sendDuration, "pawl.send.duration", "Of one call of the adapter to send", short},
		{&m.probeDuration, "pawl.probe.duration", "Of one call of the adapter to probe", short},
		{&m.timeToResolve, "pawl.time_to_resolve", "From the last possible send, or the end of a dead fence, to the settling of what nobody answered for", long},
	} {
		*h.to, err = meter.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.help), metric.WithExplicitBucketBoundaries(h.bounds...))
		faults = append(faults, err)
	}
	return m, errors.Join(faults...)
}

var (
	short = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	long  = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400}
)

func onChannel(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("channel", name)))
}

func onChannelWith(name, key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("channel", name), attribute.String(key, value)))
}

// begin makes the series of a channel at 0, so that a monitor sees the first step of each as one.
func (m measure) begin(ctx context.Context, channelName string) {
	on := onChannel(channelName)
	for _, c := range []metric.Int64Counter{m.starts, m.fruitless, m.attempts, m.ambiguities, m.fenceLosses, m.alarms, m.pauses, m.looks} {
		c.Add(ctx, 0, on)
	}
	for _, event := range []string{EventSent, EventAccepted, EventNotSent, EventRejected, EventFailedOutside, EventReopened, EventHeld, EventAbandoned, EventProbed, EventLate} {
		m.outcomes.Add(ctx, 0, onChannelWith(channelName, "event", event))
	}
}

// beginAll makes the series that belong to no channel.
func (m measure) beginAll(ctx context.Context) {
	for _, c := range []metric.Int64Counter{m.receiptsPaid, m.queueMended} {
		c.Add(ctx, 0)
	}
	for _, move := range []ledger.Move{ledger.Commit{}, ledger.Abandon{}, ledger.Reopen{}, ledger.Ambiguous{}, ledger.Accept{}, ledger.Hold{}, ledger.Probed{}, ledger.Late{}} {
		m.writeFailures.Add(ctx, 0, metric.WithAttributes(attribute.String("move", moveName(move))))
	}
}

// outcome counts what an intent came to. event is the name of the log event that says so.
func (m measure) outcome(ctx context.Context, i ledger.Intent, event string) {
	m.outcomes.Add(ctx, 1, onChannelWith(i.Channel, "event", event))
	if i.State == ledger.StateCommitted {
		m.claimToCommit.Record(ctx, max(0, i.CommittedAt.Sub(i.CreatedAt).Seconds()), onChannel(i.Channel))
	}
}

// answered counts what a call to send came to, and how long it took.
func (m measure) answered(ctx context.Context, channelName, result string, took time.Duration) {
	m.answers.Add(ctx, 1, onChannelWith(channelName, "result", result))
	m.sendDuration.Record(ctx, took.Seconds(), onChannel(channelName))
}

// probed counts what a probe came to, and how long it took.
func (m measure) probed(ctx context.Context, channelName, finding string, took time.Duration) {
	m.probes.Add(ctx, 1, onChannelWith(channelName, "finding", finding))
	m.probeDuration.Record(ctx, took.Seconds(), onChannel(channelName))
}

// under counts something under way; the returned function ends it.
func (m measure) under(ctx context.Context, channelName, doing string) (end func()) {
	o := onChannelWith(channelName, "doing", doing)
	m.inFlight.Add(ctx, 1, o)
	return func() { m.inFlight.Add(context.WithoutCancel(ctx), -1, o) }
}

// resolved records how long an intent was left alone before it was settled. before is the row as the probing fence was taken on it.
func (m measure) resolved(ctx context.Context, before ledger.Result, after ledger.Result) {
	i := before.Intent
	since := before.FenceEnded
	if i.InDoubt() {
		since = i.LastPossibleSend
	}
	if since.IsZero() || i.Accepted() || i.Held() { // these waited for the outside system, or for a person
		return
	}
	m.timeToResolve.Record(ctx, max(0, after.Now.Sub(since).Seconds()), onChannel(i.Channel))
}

// resultOf names what a call to send came to. A value that is not known counts as ambiguous, whatever its number.
func resultOf(o channel.Outcome, err error) string {
	var rejected *channel.RejectedError
	switch {
	case err != nil && channel.ProvenNotSent(err):
		if errors.As(err, &rejected) {
			return "rejected"
		}
		return "not_sent"
	case err != nil:
		return channel.OutcomeAmbiguous.String()
	}
	switch o.Kind {
	case channel.OutcomeDelivered, channel.OutcomeAccepted, channel.OutcomeFailedOutside, channel.OutcomeSuccessorWanted:
		return o.Kind.String()
	}
	return channel.OutcomeAmbiguous.String()
}

// findingOf names what a probe came to.
func findingOf(f channel.Finding, err error) string {
	if errors.Is(err, channel.ErrNotAsked) {
		return "not_asked"
	}
	switch f.Kind {
	case channel.FindingSent, channel.FindingAccepted, channel.FindingAbsentNow, channel.FindingAbsentForGood, channel.FindingFailedOutside:
		return f.Kind.String()
	}
	return channel.FindingUnknown.String()
}
