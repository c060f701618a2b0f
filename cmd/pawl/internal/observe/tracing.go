package observe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// exportEvery is how long a span waits for others; exportTimeout bounds one try to send a batch.
	exportEvery   = 2 * time.Second
	exportTimeout = 10 * time.Second
	// quietFor is how long a failing exporter is silent after it has said so.
	quietFor = time.Minute
)

// EventTracing says that spans could not be sent.
const EventTracing = "tracing.failed"

// startTracing makes the provider that sends spans.
func (s *Observe) startTracing(ctx context.Context) (*sdktrace.TracerProvider, error) {
	t := s.options.Tracing
	target, err := t.target()
	if err != nil {
		return nil, err
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target), otlptracehttp.WithHeaders(t.Headers), otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	lost, err := s.metrics.Meter(scope).Int64Counter("pawl.spans.lost", metric.WithDescription("Spans that the collector did not take"))
	if err != nil {
		return nil, err
	}
	lost.Add(ctx, 0)
	exporter := &quiet{SpanExporter: to, logger: s.options.Logger, hide: t.hide(), lost: func(n int) { lost.Add(context.Background(), int64(n)) }}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(s.options.resource()),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.Ratio))),
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(exportEvery), sdktrace.WithExportTimeout(exportTimeout))), nil
}

// hide takes the values of headers out of a text: a collector may say again what it was told.
func (t Tracing) hide() func(string) string {
	var pairs []string
	for _, value := range t.Headers {
		for _, word := range append(strings.Fields(value), value) {
			if len(word) >= 4 {
				pairs = append(pairs, word, "…")
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// quiet is an exporter whose faults go to the log, now and then, and nowhere else: effects do not wait for a collector.
type quiet struct {
	sdktrace.SpanExporter
	logger *slog.Logger
	hide   func(string) string
	lost   func(spans int)

	mu     sync.Mutex
	said   time.Time
	unsaid int // spans lost since
}

func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	q.lost(len(spans))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unsaid += len(spans)
	if !q.said.IsZero() && time.Since(q.said) < quietFor {
		return nil
	}
	q.logger.Warn(EventTracing, "spans", q.unsaid, "error", q.hide(err.Error()))
	q.said, q.unsaid = time.Now(), 0
	return nil
}
