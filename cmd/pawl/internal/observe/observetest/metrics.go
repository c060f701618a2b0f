package observetest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the samples of one scrape: "name" or `name{a="1",b="2"}`, with the labels in order of their names. A histogram has the
// samples name_count and name_sum.
type Metrics map[string]float64

// Scrape asks a handler of metrics, and fails the test if what it answers cannot be read.
func Scrape(t testing.TB, h http.Handler) Metrics {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return parse(t, w.Body)
}

// ScrapeURL asks a running server.
func ScrapeURL(t testing.TB, url string) Metrics {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("scrape %s: %v", url, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("scrape %s: %s", url, answer.Status)
	}
	return parse(t, answer.Body)
}

func parse(t testing.TB, r io.Reader) Metrics {
	t.Helper()
	m := Metrics{}
	for _, f := range Families(t, r) {
		for _, sample := range f.GetMetric() {
			labels := labelsOf(sample)
			switch {
			case sample.GetCounter() != nil:
				m[f.GetName()+labels] = sample.GetCounter().GetValue()
			case sample.GetGauge() != nil:
				m[f.GetName()+labels] = sample.GetGauge().GetValue()
			case sample.GetHistogram() != nil:
				m[f.GetName()+"_count"+labels] = float64(sample.GetHistogram().GetSampleCount())
				m[f.GetName()+"_sum"+labels] = sample.GetHistogram().GetSampleSum()
			case sample.GetUntyped() != nil:
				m[f.GetName()+labels] = sample.GetUntyped().GetValue()
			}
		}
	}
	return m
}

// Families reads the text format with names, types, help and labels.
func Families(t testing.TB, r io.Reader) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	return families
}

func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if slices.Sort(pairs); len(pairs) == 0 {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// Sum adds all samples of a metric, whatever their labels.
func (m Metrics) Sum(name string) (sum float64) {
	for sample, value := range m {
		if own, _, _ := strings.Cut(sample, "{"); own == name {
			sum += value
		}
	}
	return sum
}

// Names are the names of the samples, without labels, in order.
func (m Metrics) Names() []string {
	names := map[string]bool{}
	for sample := range m {
		name, _, _ := strings.Cut(sample, "{")
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
