package observe_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe/observetest"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

func TestAScrapeShowsWhatWasDone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, observe.Tracing{})
	p.run()
	for _, name := range []string{"one", "two", "two"} {
		p.claim(t.Context(), name)
	}
	must(t, p.ledger.SetPaused(t.Context(), channelName, true, "a test"))
	r, err := p.engine.Claim(t.Context(), ledger.Claim{RunID: p.runID, EffectKey: "file:three", Channel: channelName, Payload: []byte(`{}`)})
	must(t, err)
	if r[0].Status != ledger.ClaimNew {
		t.Fatal(r[0].Status)
	}
	m := observetest.Scrape(t, p.observe.MetricsHandler())
	for sample, want := range map[string]float64{
		`pawl_claims_total{channel="file/audit",result="new"}`:              2 + 1,
		`pawl_claims_total{channel="file/audit",result="deduplicated"}`:     1,
		`pawl_effects_total{channel="file/audit",event="effect.committed"}`: 2,
		`pawl_attempts_total{channel="file/audit"}`:                         2,
		`pawl_starts_total{channel="file/audit"}`:                           2,
		`pawl_starts_without_attempt_total{channel="file/audit"}`:           0,
		`pawl_answers_total{channel="file/audit",result="delivered"}`:       2,
		`pawl_claim_to_commit_seconds_count{channel="file/audit"}`:          2,
		`pawl_send_duration_seconds_count{channel="file/audit"}`:            2,
		`pawl_intents{channel="file/audit",state="waiting"}`:                1,
		`pawl_intents{channel="file/audit",state="held"}`:                   0,
		`pawl_ledger_committed_total`:                                       2,
		`pawl_ledger_abandoned_total`:                                       0,
		`pawl_ledger_up`:                                                    1,
		`pawl_ledger_epoch`:                                                 1,
		`pawl_receipts_owed`:                                                0,
		`pawl_engines_alive`:                                                1,
		`pawl_engine_running`:                                               1,
		`pawl_channel_paused{channel="file/audit"}`:                         1,
		`pawl_channel_flag{channel="file/audit",flag="on"}`:                 1,
		`pawl_adapter_ready{channel="file/audit"}`:                          1,
		`pawl_adapter_quarantined{channel="file/audit"}`:                    0,
		`pawl_adapter_restarts_total{channel="file/audit"}`:                 0,
		`pawl_in_flight{channel="file/audit",doing="send"}`:                 0,
		`pawl_ledger_write_failures_total{move="commit"}`:                   0,
		`pawl_fences_lost_total{channel="file/audit"}`:                      0,
	} {
		if got, there := m[sample]; !there || got != want {
			t.Errorf("%s is %g (there: %t), want %g", sample, got, there, want)
		}
	}
	if m.Sum("pawl_oldest_waiting_seconds") <= 0 || m.Sum("pawl_build_info") != 1 || m.Sum("go_goroutines") == 0 {
		t.Errorf("measured %v", m)
	}
	for sample := range m {
		if strings.Contains(sample, p.runID) || strings.Contains(sample, "file:") || strings.Contains(sample, canary) {
			t.Errorf("a run, a key or a payload is a label: %s", sample)
		}
	}
}

// dead is a ledger that answers nothing, and minds no deadline.
type dead struct {
	observe.Ledger
	release chan struct{}
	asked   sync.Map
}

func (d *dead) Stats(ctx context.Context) (ledger.Stats, error) {
	d.asked.Store(ctx, true)
	<-d.release
	return ledger.Stats{}, context.DeadlineExceeded
}

func TestADeadLedgerHoldsUpNoScrapeAndIsAskedOnce(t *testing.T) {
	t.Parallel()
	o, err := observe.Start(t.Context(), observe.Options{})
	must(t, err)
	d := &dead{release: make(chan struct{})}
	must(t, o.Watch(observe.Sources{Ledger: d}))
	began := time.Now()
	var scrapes sync.WaitGroup
	for range 3 {
		scrapes.Go(func() {
			m := observetest.Scrape(t, o.MetricsHandler())
			if up, there := m["pawl_ledger_up"]; !there || up != 0 {
				t.Errorf("pawl_ledger_up is %g (there: %t)", up, there)
			}
			if names := m.Names(); slices.Contains(names, "pawl_receipts_owed") || !slices.Contains(names, "go_goroutines") {
				t.Errorf("scraped %v", names)
			}
		})
	}
	scrapes.Wait()
	if took := time.Since(began); took > 8*time.Second { // two seconds each, where the exporter answers one after the other
		t.Errorf("three scrapes took %s", took)
	}
	asked := 0
	d.asked.Range(func(any, any) bool { asked++; return true })
	if asked != 1 {
		t.Errorf("the ledger was asked %d times while it had not answered", asked)
	}
	close(d.release)
	must(t, o.Close(t.Context()))
	must(t, o.Close(t.Context()))
}

// made is a meter provider that keeps what instruments are made.
type made struct {
	noop.MeterProvider
	all map[string][2]string // name in Prometheus: type and help
}

func (m *made) Meter(string, ...metric.MeterOption) metric.Meter { return maker{to: m} }

type maker struct {
	noop.Meter
	to *made
}

func (m maker) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.to.all[underscored(name)+"_total"] = [2]string{"counter", metric.NewInt64CounterConfig(o...).Description()}
	return noop.Int64Counter{}, nil
}

func (m maker) Int64UpDownCounter(name string, o ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	m.to.all[underscored(name)] = [2]string{"gauge", metric.NewInt64UpDownCounterConfig(o...).Description()}
	return noop.Int64UpDownCounter{}, nil
}

func (m maker) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.to.all[underscored(name)+"_seconds"] = [2]string{"histogram", metric.NewFloat64HistogramConfig(o...).Description()}
	return noop.Float64Histogram{}, nil
}

func underscored(name string) string { return strings.ReplaceAll(name, ".", "_") }

// elsewhere are metrics that other packages make, and that this test does not see.
var elsewhere = []string{"pawl_api_request_duration_seconds"}

// described reads the tables of the page: name, type, labels, meaning.
func described(t *testing.T) map[string][3]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "observability.md"))
	must(t, err)
	rows := map[string][3]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if name := strings.Trim(strings.TrimPrefix(cells[0], "| "), "`"); len(cells) == 4 && strings.HasPrefix(name, "pawl_") {
			rows[name] = [3]string{cells[1], cells[2], strings.TrimSuffix(cells[3], " |")}
		}
	}
	return rows
}

func TestThePageHasEveryMetricAndNoOther(t *testing.T) {
	t.Parallel()
	page := described(t)
	p := newPlace(t, tracingTo(observetest.NewCollector(t)))
	p.run()
	p.claim(t.Context(), "die") // a send, a probe, a recovery
	m := &made{all: map[string][2]string{}}
	_, err := core.New(t.Context(), core.Options{Ledger: p.ledger, Meter: m})
	must(t, err)
	w := httptest.NewRecorder()
	p.observe.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := map[string][2]string{}
	for name, f := range observetest.Families(t, w.Body) {
		if !strings.HasPrefix(name, "pawl_") {
			continue
		}
		want[name] = [2]string{strings.ToLower(f.GetType().String()), f.GetHelp()}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		if slices.Sort(labels); page[name][1] != strings.Join(labels, ", ") {
			t.Errorf("%s has labels %s, the page says %q", name, strings.Join(labels, ", "), page[name][1])
		}
	}
	for name, w := range m.all {
		if scraped, there := want[name]; there && scraped != w {
			t.Errorf("%s is scraped as %v, made as %v", name, scraped, w)
		}
		want[name] = w
	}
	for name, w := range want {
		if got, there := page[name]; !there || got[0] != w[0] || got[2] != w[1] {
			t.Errorf("the page lacks, or has otherwise: | `%s` | %s | %s | %s |", name, w[0], page[name][1], w[1])
		}
	}
	for name := range page {
		if _, there := want[name]; !there && !slices.Contains(elsewhere, name) {
			t.Errorf("the page has %s, which nothing makes", name)
		}
	}
}
