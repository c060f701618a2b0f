package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlworks/pawl/core"
)

// Engine is what is watched of an engine: a [core.Engine].
type Engine interface {
	Pulse() core.Pulse
}

// Adapter is what a process sees of one channel's adapter.
type Adapter struct {
	Ready       bool
	Quarantined bool  // it fell too often, or cannot be started: it rests
	Restarts    int64 // since the process began
}

// Sources are what is read at each scrape. Each may be left out.
type Sources struct {
	Ledger Ledger
	// HeartbeatTimeout is how long an engine may be silent and still count as alive. Default core.DefaultHeartbeatTimeout.
	HeartbeatTimeout time.Duration
	Engine           Engine
	Adapters         func() map[string]Adapter // by channel
}

// Watch begins to read the sources at each scrape, until Close. Ledger and engine must outlive Close. It is called once.
func (s *Observe) Watch(from Sources) error {
	meter := s.metrics.Meter(scope)
	var faults []error
	if from.Ledger != nil {
		if from.HeartbeatTimeout == 0 {
			from.HeartbeatTimeout = core.DefaultHeartbeatTimeout
		}
		r := newReader(from.Ledger, s.options.Logger)
		s.mu.Lock()
		s.readers = append(s.readers, r)
		s.mu.Unlock()
		faults = append(faults, s.watchLedger(meter, r, from.HeartbeatTimeout))
	}
	if from.Engine != nil {
		faults = append(faults, s.watchEngine(meter, from.Engine))
	}
	if from.Adapters != nil {
		faults = append(faults, s.watchAdapters(meter, from.Adapters))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// watch registers a callback over all instruments of g.
func (s *Observe) watch(meter metric.Meter, g *gauges, f func(ctx context.Context, o metric.Observer) error) error {
	if err := errors.Join(g.faults...); err != nil {
		return err
	}
	w, err := meter.RegisterCallback(f, g.all...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, w)
	return nil
}

// gauges makes instruments that are read at scrapes, and gathers their faults.
type gauges struct {
	meter  metric.Meter
	all    []metric.Observable
	faults []error
}

func (g *gauges) add(o metric.Observable, err error) {
	g.all, g.faults = append(g.all, o), append(g.faults, err)
}

func (g *gauges) count(name, help string) metric.Int64ObservableGauge {
	i, err := g.meter.Int64ObservableGauge(name, metric.WithDescription(help))
	g.add(i, err)
	return i
}

func (g *gauges) total(name, help string) metric.Int64ObservableCounter {
	i, err := g.meter.Int64ObservableCounter(name, metric.WithDescription(help))
	g.add(i, err)
	return i
}

func (g *gauges) seconds(name, help string) metric.Float64ObservableGauge {
	i, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(help))
	g.add(i, err)
	return i
}

func (s *Observe) watchEngine(meter metric.Meter, e Engine) error {
	g := &gauges{meter: meter}
	age := g.seconds("pawl.heartbeat.age", "Since the ledger took this engine's last heartbeat")
	running := g.count("pawl.engine.running", "1 while this process's engine runs and takes new work, else 0")
	silent := g.seconds("pawl.loop.age", "Since a loop of the engine made progress")
	return s.watch(meter, g, func(_ context.Context, o metric.Observer) error {
		p := e.Pulse()
		if !p.LastBeat.IsZero() {
			o.ObserveFloat64(age, max(0, time.Since(p.LastBeat).Seconds()))
		}
		o.ObserveInt64(running, oneIf(p.Running && !p.Stopping))
		for _, l := range p.Loops {
			o.ObserveFloat64(silent, l.Silent.Seconds(), metric.WithAttributes(attribute.String("loop", l.Name), attribute.String("channel", l.Channel)))
		}
		return nil
	})
}

func (s *Observe) watchAdapters(meter metric.Meter, read func() map[string]Adapter) error {
	g := &gauges{meter: meter}
	ready := g.count("pawl.adapter.ready", "1 while the channel's adapter takes calls in this process, else 0")
	quarantined := g.count("pawl.adapter.quarantined", "1 while the channel's adapter rests because it fell too often, else 0")
	restarts := g.total("pawl.adapter.restarts", "How often the channel's adapter was started again")
	return s.watch(meter, g, func(_ context.Context, o metric.Observer) error {
		for name, a := range read() {
			on := onChannel(name)
			o.ObserveInt64(ready, oneIf(a.Ready), on)
			o.ObserveInt64(quarantined, oneIf(a.Quarantined), on)
			o.ObserveInt64(restarts, a.Restarts, on)
		}
		return nil
	})
}

func onChannel(name string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("channel", name)))
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
