package observe

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// EventScrape says that a scrape was answered in part.
const EventScrape = "metrics.scrape_failed"

// scrapeLog lets the handler of scrapes say what went wrong.
type scrapeLog struct{ to *slog.Logger }

func (l scrapeLog) Println(v ...any) { l.to.Warn(EventScrape, "error", fmt.Sprint(v...)) }

// buildInfo makes the metric that says which program this is. Its value is always 1.
func (s *Observe) buildInfo() error {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, set := range info.Settings {
			if set.Key == "vcs.revision" {
				revision = set.Value
			}
		}
	}
	version := s.options.Version
	if version == "" {
		version = "unknown"
	}
	labels := metric.WithAttributes(attribute.String("version", version), attribute.String("revision", revision), attribute.String("go_version", runtime.Version()))
	_, err := s.metrics.Meter(scope).Int64ObservableGauge("pawl.build_info", metric.WithDescription("Which program runs; always 1"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, labels)
			return nil
		}))
	return err
}
