package demo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/command"
	"github.com/pawlworks/pawl/cmd/pawl/internal/demo"
	"github.com/pawlworks/pawl/conformance/world/mailpeer"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// TestMain is also the engine and the adapter: the demo starts its own program again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "engine" || os.Args[1] == "serve" || os.Args[1] == "adapter") {
		os.Exit(command.Main(os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(pgtest.Main(m))
}

// options are those of a short demo.
func options(change func(*demo.Options)) demo.Options {
	o := demo.Options{Count: 60, Kills: 6, Seed: 1, Channel: "mail", User: "pawl", To: "example.test", Timeout: 3 * time.Minute}
	change(&o)
	return o
}

func run(t *testing.T, o demo.Options) demo.Result {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo") // not the test's own, whose name is long: the demo makes sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir) // a demo that fails keeps its files
	var progress bytes.Buffer
	r, err := demo.Run(t.Context(), o, &progress)
	if err != nil || !r.Good() {
		if log, readErr := os.ReadFile(r.Directory + "/engine.log"); readErr == nil {
			t.Logf("the engine's log ends with\n%s", log[max(0, len(log)-8000):])
		}
		t.Fatalf("%+v, %v\n%s", r, err, progress.String())
	}
	if r.Kills != o.Kills {
		t.Fatalf("%d kills, want %d", r.Kills, o.Kills)
	}
	return r
}

// TestDemoFiresEachEffectOnce is the demo itself, short, in each of its forms that can settle everything.
func TestDemoFiresEachEffectOnce(t *testing.T) {
	tests := map[string]func(t *testing.T, o *demo.Options){
		"mail on sqlite":   func(*testing.T, *demo.Options) {},
		"mail on postgres": func(t *testing.T, o *demo.Options) { o.Ledger = pgtest.Database(t) },
		"mail on pooled postgres": func(t *testing.T, o *demo.Options) {
			direct := pgtest.Database(t)
			if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: direct}); err != nil {
				t.Fatal(err)
			}
			o.Ledger = pgtest.Pooler(t, direct)
		},
		"file on sqlite":     func(_ *testing.T, o *demo.Options) { o.Channel = "file" },
		"served on sqlite":   func(_ *testing.T, o *demo.Options) { o.Serve = true },
		"served on postgres": func(t *testing.T, o *demo.Options) { o.Serve, o.Ledger = true, pgtest.Database(t) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := run(t, options(func(o *demo.Options) { change(t, o) }))
			want := demo.Result{Claimed: 60, Committed: 60, Delivered: 60, ReceiptsVerified: 60, Kills: 6, Seed: 1}
			got := r
			if c := r.Scraped; (c != nil) != strings.HasPrefix(name, "served") || c != nil && *c != (demo.Scraped{Committed: 60}) {
				t.Errorf("the service counts %+v", c)
			}
			got.Scraped = nil
			got.Starts, got.RecoverMedianMS, got.RecoverMostMS, got.ElapsedMS = 0, 0, 0, 0
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestDemoWithoutAProbeHoldsAndSaysWhy: nothing is sent twice, nothing is lost, and what nobody can know waits for a person.
func TestDemoWithoutAProbeHoldsAndSaysWhy(t *testing.T) {
	r := run(t, options(func(o *demo.Options) { o.NoProbe = true }))
	if r.Duplicates != 0 || r.Lost != 0 || len(r.HeldIntents) != r.Held || r.Held > 6*8 {
		t.Fatalf("got %+v", r)
	}
	for _, h := range r.HeldIntents {
		if h.Reason == "" {
			t.Errorf("%s is held without a reason", h.EffectKey)
		}
	}
}

// TestDemoAgainstPostfixAndDovecot uses servers that nobody here wrote.
func TestDemoAgainstPostfixAndDovecot(t *testing.T) {
	peer := mailpeer.StartForTest(t)
	r := run(t, options(func(o *demo.Options) {
		o.Count, o.Kills, o.Seed = 30, 3, 7
		o.SMTP, o.IMAP, o.User, o.Password = peer.SMTPAddr(), peer.IMAPAddr(), "pawl@"+mailpeer.Domain, mailpeer.Password
	}))
	if r.Duplicates != 0 || r.Lost != 0 || r.Committed+r.Held != 30 {
		t.Fatalf("got %+v", r)
	}
}

func TestDemoJSONIsOneLineWithItsFields(t *testing.T) {
	var out bytes.Buffer
	if err := (demo.Result{Claimed: 3, Seed: 9}).Print(&out, true); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("not one line: %q", out.String())
	}
	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"claimed", "committed", "delivered", "duplicates", "lost", "held", "kills", "receipts_verified", "seed"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("field %s is missing", name)
		}
	}
}

func TestDemoRefusesFlagsThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*demo.Options){
		"--n":       func(o *demo.Options) { o.Count = 0 },
		"--kills":   func(o *demo.Options) { o.Kills = -1 },
		"--channel": func(o *demo.Options) { o.Channel = "fax" },
		"--smtp":    func(o *demo.Options) { o.SMTP = "127.0.0.1:1" },
	} {
		if _, err := demo.Run(t.Context(), options(change), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
