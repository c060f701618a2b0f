package observe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

var metricName = regexp.MustCompile(`\bpawl_[a-z_]+`)

func docs(name string) string { return filepath.Join("..", "..", "..", "..", "docs", name) }

// TestAlertsAreAboutMetricsThatAreThere, and each says what to do.
func TestAlertsAreAboutMetricsThatAreThere(t *testing.T) {
	text, err := os.ReadFile(docs("alerts.yaml"))
	must(t, err)
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
				Annotations      map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(text, &rules))
	page, about := described(t), map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			names := metricName.FindAllString(r.Expr, -1)
			if len(names) == 0 || r.Annotations["summary"] == "" || len(r.Annotations["description"]) < 80 || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				t.Errorf("%s is about nothing, or does not say what to do", r.Alert)
			}
			for _, name := range names {
				if about[name] = true; page[name] == [3]string{} {
					t.Errorf("%s is about %s, which is not a metric", r.Alert, name)
				}
			}
		}
	}
	for _, name := range []string{
		"pawl_oldest_unknown_seconds", "pawl_oldest_waiting_seconds", "pawl_receipts_owed", "pawl_ledger_write_failures_total", "pawl_fences_lost_total",
		"pawl_adapter_ready", "pawl_adapter_restarts_total", "pawl_adapter_quarantined", "pawl_engines_alive", "pawl_ledger_up", "pawl_channel_paused",
		"pawl_starts_without_attempt_total",
	} {
		if !about[name] {
			t.Errorf("no alert is about %s", name)
		}
	}
}

// TestAlertsFireWhenTheyShould runs Prometheus' own tool.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing (Debian: prometheus)")
		}
		t.Skip("promtool is missing (Debian: prometheus): whether the alerts fire was not tried")
	}
	for _, args := range [][]string{{"check", "rules", docs("alerts.yaml")}, {"test", "rules", docs("alerts.test.yaml")}} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
