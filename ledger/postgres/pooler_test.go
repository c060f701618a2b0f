package postgres_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// TestLedgerThroughAPooler runs the suite through a transaction pooler that knows no prepared statement, as older ones and careful
// settings have it, and through one that follows them, where the machine has one. The whole suite is for CI.
func TestLedgerThroughAPooler(t *testing.T) {
	poolers := map[string][]string{"without prepared statements": nil}
	if pgtest.PoolerFollowsStatements() {
		poolers["with prepared statements"] = []string{pgtest.PoolerStatements + "=200"}
	}
	for name, settings := range poolers {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) ledgertest.Backend {
				direct := pgtest.Database(t)
				return backendAt(t, direct, pgtest.Pooler(t, direct, settings...), "&default_query_exec_mode=exec")
			}
			if os.Getenv("CI") == "true" {
				ledgertest.Run(t, open)
				return
			}
			ledgertest.RunOnly(t, open, "claim", "fence", "commit and accept", "many at once")
		})
	}
}

func TestMigratingThroughAPoolerSaysSo(t *testing.T) {
	const schema = `the ledger's "own"`
	direct := postgres.MigrateOptions{URL: pgtest.Database(t), Schema: schema}
	// A pooler that swallows the search path would have the tables made in the wrong schema.
	pooled := postgres.MigrateOptions{URL: pgtest.Pooler(t, direct.URL, "ignore_startup_parameters = search_path"), Schema: schema}
	states := func(o postgres.MigrateOptions) string {
		all, err := postgres.Status(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, m := range all {
			line := m.Name
			if m.Applied {
				line += " applied"
			}
			if m.Applied == m.AppliedAt.IsZero() {
				t.Errorf("%s was applied at %s", line, m.AppliedAt)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	if got := states(pooled); strings.Contains(got, "applied") || !strings.Contains(got, "00001") {
		t.Errorf("the status of an empty database through the pooler is\n%s", got)
	}
	if _, err := postgres.Migrate(t.Context(), pooled); !errors.Is(err, postgres.ErrPooled) || !strings.Contains(err.Error(), "direct connection") {
		t.Errorf("migrating through the pooler: %v", err)
	}
	if _, err := postgres.Migrate(t.Context(), direct); err != nil {
		t.Fatal(err)
	}
	if applied, err := postgres.Migrate(t.Context(), pooled); err != nil || len(applied) > 0 {
		t.Errorf("migrating through the pooler what is migrated: %v, %v", applied, err)
	}
	if got, want := states(pooled), states(direct); got != want {
		t.Errorf("the status through the pooler is\n%s\nand without it\n%s", got, want)
	}
}

// TestAPoolerThatIsPutInBetweenIsNoticed: a ledger that was opened on a direct connection uses named statements, which the pooler does not know.
func TestAPoolerThatIsPutInBetweenIsNoticed(t *testing.T) {
	direct := pgtest.Database(t)
	proxy, url := pgtest.NewProxy(t, direct)
	l := openAt(t, url)
	c := newClaim("mail:1")
	claim(t, l, c)
	proxy.Lead(t, pgtest.Pooler(t, direct))
	_, _, err := l.Intent(t.Context(), ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey})
	if err == nil || !strings.Contains(err.Error(), "pooler stands between now") {
		t.Errorf("reading through a pooler that came later: %v", err)
	}
}
