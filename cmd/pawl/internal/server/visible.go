package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/sdk/host"
)

const (
	scope = "github.com/pawlworks/pawl/cmd/pawl/internal/server"
	// flushTimeout bounds what a stop waits for the collector of traces.
	flushTimeout = 3 * time.Second
)

// tracing is the configuration of traces in the terms of the package that sends them.
func tracing(t config.Tracing) (observe.Tracing, error) {
	to := observe.Tracing{Endpoint: t.Endpoint, Ratio: t.Ratio}
	if len(t.Headers) > 0 {
		if err := json.Unmarshal(t.Headers.Reveal(), &to.Headers); err != nil {
			return to, fmt.Errorf("tracing.headers: is no mapping of names to text") // the cause may quote a value
		}
	}
	return to, nil
}

// instance names this start of the process, in fences, heartbeats, health and traces.
func instance() string {
	name, err := os.Hostname()
	if err != nil {
		name = "host"
	}
	return fmt.Sprintf("%s-%d-%s", name, os.Getpid(), uuid.NewString()[:8])
}

// becomeVisible makes the providers of metrics and traces. Close ends them before the ledger, which they read.
func (s *Server) becomeVisible(ctx context.Context, o Options) error {
	to, err := tracing(o.Config.Tracing)
	if err != nil {
		return err
	}
	s.visible, err = observe.Start(ctx, observe.Options{Version: o.Version, Instance: s.instance, Logger: o.Logger, Tracing: to})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return nil
}

// watch lets scrapes read ledger, engine and adapters.
func (s *Server) watch() error {
	return s.visible.Watch(observe.Sources{
		Ledger: s.Ledger, Engine: s.Engine, HeartbeatTimeout: s.Engine.Options().HeartbeatTimeout, Adapters: s.adapters,
	})
}

// adapters is what metrics and readiness know of the channels. Reasons are not in it: whoever can reach the port reads it. The API's health has them.
func (s *Server) adapters() map[string]observe.Adapter {
	all := make(map[string]observe.Adapter, len(s.members))
	for _, m := range s.members {
		a, _ := m.now()
		h := s.health(m)
		all[m.name] = observe.Adapter{Ready: h.Ready, Restarts: h.Restarts, Quarantined: m.rests() || a != nil && a.State() == host.Quarantined}
	}
	return all
}

func (s *Server) healthz() http.Handler { return observe.Health(observe.Loops(s.Engine)) }

func (s *Server) readyz() http.Handler {
	oldest := s.Engine.Options().HeartbeatTimeout // past it, others look after what this engine has under way
	return observe.Health(observe.Stopping(s.stopping.Done()), observe.Heartbeat(s.Engine, oldest/3),
		observe.Answers(func(ctx context.Context) error {
			_, err := s.Ledger.Now(ctx)
			if err != nil {
				s.logger.WarnContext(ctx, core.EventLedger, "doing", "readiness", "error", err)
			}
			return err
		}), observe.Adapters(s.adapters))
}

// requests makes the instrument that counts and times requests. Every label is of a closed set: a method that no route takes is "other".
func (s *Server) requests() (func(method, route string, status int, took time.Duration), error) {
	h, err := s.visible.MeterProvider().Meter(scope).Float64Histogram("pawl.api.request_duration", metric.WithUnit("s"),
		metric.WithDescription("Requests to the API, by method, route and status; long polls among them"))
	if err != nil {
		return nil, err
	}
	return func(method, route string, status int, took time.Duration) {
		switch {
		case route == "":
			method, route = "other", "none"
		case method != http.MethodGet && method != http.MethodPost && method != http.MethodDelete:
			method = "other"
		}
		h.Record(context.Background(), took.Seconds(), metric.WithAttributes(
			attribute.String("method", method), attribute.String("route", route), attribute.Int("status", status)))
	}, nil
}
