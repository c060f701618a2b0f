package core_test

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters is a meter provider that keeps what is measured, in memory.
type meters struct {
	noop.MeterProvider
	mu     sync.Mutex
	scopes []string
	made   []string
	points map[string][]attribute.Set
}

func (m *meters) Meter(scope string, _ ...metric.MeterOption) metric.Meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scopes = append(m.scopes, scope)
	return &meter{all: m}
}

func (m *meters) add(name string, set attribute.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.points == nil {
		m.points = map[string][]attribute.Set{}
	}
	m.points[name] = append(m.points[name], set)
}

// measured returns the instruments with a point, in order, and those that were made.
func (m *meters) measured() (used, made []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.points {
		used = append(used, name)
	}
	slices.Sort(used)
	made = slices.Sorted(slices.Values(m.made))
	return used, made
}

// keys are the attribute keys of an instrument's points.
func (m *meters) keys(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for _, set := range m.points[name] {
		for _, a := range set.ToSlice() {
			if !slices.Contains(keys, string(a.Key)) {
				keys = append(keys, string(a.Key))
			}
		}
	}
	slices.Sort(keys)
	return keys
}

type meter struct {
	noop.Meter
	all *meters
}

func (m *meter) instrument(name string) instrument {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.all.made = append(m.all.made, name)
	return instrument{name: name, all: m.all}
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{instrument: m.instrument(name)}, nil
}

func (m *meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDown{instrument: m.instrument(name)}, nil
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{instrument: m.instrument(name)}, nil
}

type instrument struct {
	name string
	all  *meters
}

type counter struct {
	noop.Int64Counter
	instrument
}

func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	if n == 0 {
		return // a series that begins, without a measurement
	}
	c.all.add(c.name, metric.NewAddConfig(o).Attributes())
}

type upDown struct {
	noop.Int64UpDownCounter
	instrument
}

func (c upDown) Add(_ context.Context, _ int64, o ...metric.AddOption) {
	c.all.add(c.name, metric.NewAddConfig(o).Attributes())
}

type histogram struct {
	noop.Float64Histogram
	instrument
}

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	h.all.add(h.name, metric.NewRecordConfig(o).Attributes())
}
