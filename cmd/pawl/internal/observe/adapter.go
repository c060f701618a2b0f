package observe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Environment variables by which an adapter process learns where its spans go. They are OpenTelemetry's own, so that the exporters of any
// language read them.
const (
	envEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

const (
	// adapterExportEvery is short: a process that is killed takes the spans along that wait.
	adapterExportEvery = 500 * time.Millisecond
	// adapterFlush bounds the end of a process that was asked to end: it is killed two seconds later.
	adapterFlush = time.Second
)

// AdapterEnv is the environment that makes a bundled adapter send its spans to the same collector; empty without tracing. The values of
// headers are in it: it is for processes of this program only, which run as the same user.
func AdapterEnv(t Tracing) map[string]string {
	target, err := t.target()
	if !t.On() || err != nil {
		return nil
	}
	env := map[string]string{envEndpoint: strings.TrimSuffix(target, tracesPath)}
	var headers []string
	for name, value := range t.Headers {
		headers = append(headers, url.PathEscape(name)+"="+url.PathEscape(value))
	}
	if slices.Sort(headers); len(headers) > 0 {
		env[envHeaders] = strings.Join(headers, ",")
	}
	return env
}

// StartAdapter sets up tracing of an adapter process: the process's tracer provider, if the environment says where spans go, and
// nothing otherwise. It follows the engine's decision for each trace and begins none of its own. The returned function sends what waits,
// for at most a second, and must be called before the process ends. Errors are for the log: an adapter without traces does its work.
func StartAdapter(ctx context.Context, service, version string) (end func(), err error) {
	if os.Getenv(envEndpoint) == "" {
		return func() {}, nil
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return func() {}, fmt.Errorf("tracing: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(Options{Service: service, Version: version}.resource()),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())),
		sdktrace.WithBatcher(silent{to}, sdktrace.WithBatchTimeout(adapterExportEvery), sdktrace.WithExportTimeout(exportTimeout)))
	otel.SetTracerProvider(p)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adapterFlush)
		defer cancel()
		_ = p.Shutdown(ctx) // the engine's exporter says that the collector is away
	}, nil
}

// silent is an exporter without faults: the engine's own says them, once for all.
type silent struct{ sdktrace.SpanExporter }

func (s silent) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	_ = s.SpanExporter.ExportSpans(ctx, spans)
	return nil
}

func (s silent) Shutdown(ctx context.Context) error {
	if err := s.SpanExporter.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
