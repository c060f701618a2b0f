package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk"
)

// TestMain makes this test binary the running image that bundled adapters are started from: "adapter serve NAME".
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "adapter" && os.Args[2] == "serve" {
		b, ok := FindBundled(os.Args[3])
		if !ok {
			os.Exit(2)
		}
		os.Exit(sdk.Serve(b.Adapter, nil))
	}
	goleak.VerifyTestMain(m)
}

func configured(t *testing.T, text string) config.Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadWith(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const oneChannel = `
data: data
engine: {poll_every: 20ms}
channels:
  file/audit:
    adapter: file
    config: {path: $DIR/effects.jsonl}
    policy: {unknown: hold}
`

func TestAnEngineSendsWhatAnotherProgramClaims(t *testing.T) {
	c := configured(t, oneChannel)
	s, err := Start(t.Context(), Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenLedger(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 2)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(t.Context(), signals) }()
	results, err := core.Claim(t.Context(), other, ledger.Claim{
		RunID: "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77", EffectKey: "file:1", Channel: "file/audit", Payload: []byte(`{"order":7}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	i, err := core.Wait(ctx, other, results[0].Key)
	if err != nil || i.State != ledger.StateCommitted {
		t.Errorf("the intent is %s (%v)", i.Outcome(), err)
	}
	signals <- os.Interrupt
	if err := errors.Join(<-ran, s.Close(), other.Close()); err != nil {
		t.Errorf("the engine did not stop in order: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(c.Data), "effects.jsonl"))
	if err != nil || strings.Count(string(text), `"order":7`) != 1 {
		t.Errorf("the file holds %q (%v)", text, err)
	}
}

func TestAStartThatFailsLeavesNothingOpen(t *testing.T) {
	// goleak at the end sees what stayed; the ledger can be moved away here because nobody holds it.
	tests := []struct {
		name, change, to string
		as               func(error) bool
	}{
		{"an adapter's pin", "adapter: file", "adapter: {path: /bin/cat, sha256: " + strings.Repeat("0a", 32) + "}", isAdapter},
		{"a policy", "unknown: hold", "unknown: hold, send_timeout: 2m", isConfig},
		{"an adapter's name", "adapter: file", "adapter: fiel", isConfig},
		{"another ledger", "data: data", "data: data\nledger: {id: 00000000-0000-4000-8000-000000000000}", isLedger},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := configured(t, strings.Replace(oneChannel, tt.change, tt.to, 1))
			_, err := Start(t.Context(), Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
			if err == nil || !tt.as(err) {
				t.Fatalf("err is %v", err)
			}
			path, _ := c.Ledger.URL.SQLite()
			for _, sidecar := range []string{"-wal", "-shm"} {
				if _, err := os.Stat(path + sidecar); err == nil {
					t.Errorf("the ledger was not closed: there is a %s", sidecar)
				}
			}
		})
	}
}

func isAdapter(err error) bool { var e *AdapterError; return errors.As(err, &e) }
func isLedger(err error) bool  { var e *LedgerError; return errors.As(err, &e) }
func isConfig(err error) bool {
	var file *config.Error
	var engine *core.ConfigError
	return errors.As(err, &file) || errors.As(err, &engine)
}

func TestTheReceiptKeyIsMadeOnceAndIsPrivate(t *testing.T) {
	c := configured(t, oneChannel)
	_, first, err := engineIssuer(c)
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := engineIssuer(c)
	if err != nil || first.String() != second.String() {
		t.Errorf("the second start has %v, the first had %v (%v)", second, first, err)
	}
	info, err := os.Stat(filepath.Join(c.Data, keyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	ring, err := receipt.LoadKeyRing(filepath.Join(c.Data, config.PublicKeyFile))
	if err != nil || ring.Len() != 1 || !strings.Contains(first.String(), ring.IDs()[0]) {
		t.Errorf("the public key is not that of %v: %v", first, err)
	}
}

func TestOnlyAnEngineMakesAKey(t *testing.T) {
	c := configured(t, oneChannel)
	s, err := commandSigner(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Issue(receipt.Effect{}); err == nil {
		t.Error("a receipt was signed without a key")
	}
	if _, err := os.Stat(c.Data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command made the data directory: %v", err)
	}
	c.ReceiptKey = filepath.Join(t.TempDir(), "shared.pem")
	if _, _, err := engineIssuer(c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a shared key that is missing gives %v", err)
	}
}

func TestTheLedgersTimeOutIsTheSmallestCommitBound(t *testing.T) {
	c := config.Default()
	if got := commitBound(c); got != core.DefaultCommitBound {
		t.Errorf("without channels it is %s", got)
	}
	c.Channels = map[string]config.Channel{
		"a": {Policy: config.Policy{CommitBound: 3 * time.Second}}, "b": {}, "c": {Policy: config.Policy{CommitBound: time.Second}},
	}
	if got := commitBound(c); got != time.Second {
		t.Errorf("it is %s, want 1s", got)
	}
}

func TestSocketsGoWhereTheirPathsFit(t *testing.T) {
	if got := socketDir("/var/lib/pawl"); got != "/var/lib/pawl/run" {
		t.Errorf("a short data directory gives %q", got)
	}
	if got := socketDir("/" + strings.Repeat("x", 100)); got != "" {
		t.Errorf("a long data directory gives %q, want the host's choice", got)
	}
}

func TestNoPasswordIsInALedgersError(t *testing.T) {
	c := config.Default()
	c.Ledger.URL = "postgres://u:hunter2@127.0.0.1:1/d?password=hunter2"
	_, err := OpenLedger(t.Context(), c)
	if err == nil || !isLedger(err) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err is %v", err)
	}
}
