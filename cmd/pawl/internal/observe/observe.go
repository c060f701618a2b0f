package observe

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	scope = "github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	// cardinality bounds the series of one metric: a net below the rule that labels are of closed sets.
	cardinality = 5000
	// scrapeTimeout bounds a scrape as a whole; scrapesAtOnce how many are answered at the same time.
	scrapeTimeout = 10 * time.Second
	scrapesAtOnce = 4
)

// Observe holds the providers of one process. It is safe for concurrent use. Make one with [Start].
type Observe struct {
	options  Options
	registry *prometheus.Registry
	metrics  *sdkmetric.MeterProvider
	tracer   trace.TracerProvider
	spans    *sdktrace.TracerProvider // nil: no tracing

	mu      sync.Mutex
	watches []metric.Registration
	readers []*reader
}

// Start makes the providers. Nothing is global: they belong to whoever is handed them. A collector that does not answer is no error, now or
// later: spans are dropped, and the log says so.
func Start(ctx context.Context, o Options) (*Observe, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Observe{options: o, registry: prometheus.NewRegistry(), tracer: noop.NewTracerProvider()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo(), otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, err
	}
	s.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(o.resource()), sdkmetric.WithCardinalityLimit(cardinality))
	if o.Tracing.On() {
		if s.spans, err = s.startTracing(ctx); err != nil {
			return nil, errors.Join(err, s.metrics.Shutdown(ctx))
		}
		s.tracer = s.spans
	}
	if err := s.buildInfo(); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// MeterProvider is where instruments are made.
func (s *Observe) MeterProvider() metric.MeterProvider { return s.metrics }

// TracerProvider is where spans are started; one that makes none without tracing.
func (s *Observe) TracerProvider() trace.TracerProvider { return s.tracer }

// MetricsHandler answers scrapes in the text format of Prometheus.
func (s *Observe) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{s.options.Logger}, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTimeout,
	})
}

// Close ends what is read at scrapes, and sends the spans that wait, for as long as ctx lets it. Close twice is harmless.
func (s *Observe) Close(ctx context.Context) error {
	s.mu.Lock()
	watches, readers := s.watches, s.readers
	s.watches, s.readers = nil, nil
	s.mu.Unlock()
	var faults []error
	for _, w := range watches {
		faults = append(faults, w.Unregister())
	}
	for _, r := range readers {
		r.close()
	}
	if s.spans != nil {
		faults = append(faults, s.spans.Shutdown(ctx))
	}
	if err := s.metrics.Shutdown(ctx); !errors.Is(err, sdkmetric.ErrReaderShutdown) {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
