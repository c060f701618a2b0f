package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk"
)

// crashes is the argument by which this test binary is an adapter that dies at once.
const crashes = "crash-at-once"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "adapter" && os.Args[2] == "serve":
		b, ok := server.FindBundled(os.Args[3])
		if !ok {
			os.Exit(2)
		}
		os.Exit(sdk.Serve(b.Adapter, nil))
	case len(os.Args) > 1 && os.Args[1] == crashes:
		os.Stderr.WriteString("out of luck\n")
		os.Exit(3)
	}
	os.Exit(pgtest.Main(m))
}

const canary = "hunter2-canary"

// healthy is a configuration without any fault, with $DIR for its folder.
const healthy = `
data: data
api: {listen: "127.0.0.1:0"}
channels:
  file/audit:
    adapter: file
    config: {path: $DIR/effects.jsonl}
    policy: {unknown: hold}
`

// place is a folder with a configuration, a ledger and a key.
type place struct {
	t       *testing.T
	dir     string
	options Options
}

// settle writes the configuration with replacements (old, new), and makes what a first start makes.
func settle(t *testing.T, replace ...string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	text := strings.NewReplacer(replace...).Replace(healthy)
	text = strings.NewReplacer("$DIR", p.dir, "$SELF", self, "$SHA256", hex.EncodeToString(sum[:])).Replace(text)
	file := filepath.Join(p.dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	p.options = Options{File: file, Executable: self}
	p.options.Config, p.options.Failed = config.LoadWith(file, nil)
	if p.options.Failed != nil {
		return p
	}
	data := p.options.Config.Data
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if path, ok := p.options.Config.Ledger.URL.SQLite(); ok {
		if err := server.Migrate(t.Context(), p.options.Config); err != nil {
			t.Fatal(err)
		}
		p.chmod(path, 0o600)
	}
	key, err := receipt.LoadOrCreateKey(filepath.Join(data, "receipt.key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := receipt.WritePublicKey(filepath.Join(data, config.PublicKeyFile), key.Public()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) chmod(path string, mode os.FileMode) {
	p.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func TestAHealthyPlaceHasNoFault(t *testing.T) {
	p := settle(t)
	found := Look(t.Context(), p.options)
	seen := map[string]bool{}
	for _, f := range found {
		seen[f.About] = true
		if f.Level == Fault {
			t.Errorf("%s: %s", f.About, f.What)
		}
	}
	for _, about := range []string{"configuration", "data directory", "receipt key", "ledger", "migrations", "ledger id", "clock", "channel file/audit", "API"} {
		if !seen[about] {
			t.Errorf("nothing is said of %s", about)
		}
	}
	left, err := os.ReadDir(p.options.Config.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if name := entry.Name(); name != "receipt.key.pem" && name != config.PublicKeyFile && !strings.HasPrefix(name, config.LedgerFile) {
			t.Errorf("it left %s in the data directory", name)
		}
	}
}

func TestEveryPlantedFaultIsNamed(t *testing.T) {
	adapter := func(changed string) []string { return []string{"adapter: file\n", changed + "\n"} }
	tests := []struct {
		name        string
		replace     []string
		plant       func(p *place)
		about, what string
		do          string
	}{
		{"an unknown key", []string{"policy:", "polcy:"}, nil, "configuration", `unknown key; did you mean "policy"?`, "mend it there"},
		{"a policy that is not stated", []string{"{unknown: hold}", "{}"}, nil, "configuration", "policy.unknown: must be stated", "mend it"},
		{"a password that all can read", []string{"config: {", "config: {password: " + canary + ", "}, func(p *place) { p.chmod(p.options.File, 0o644) },
			"configuration", "holds a secret (channels.file/audit.config.password)", "chmod 640"},
		{"a data directory that is read-only", nil, func(p *place) {
			p.chmod(p.options.Config.Data, 0o500)
			p.t.Cleanup(func() { p.chmod(p.options.Config.Data, 0o700) })
		}, "data directory", "is read-only", "chmod 700"},
		{"a data directory that others write to", nil, func(p *place) { p.chmod(p.options.Config.Data, 0o777) }, "data directory", "others can write to", "chmod 700"},
		{"a receipt key that all can read", nil, func(p *place) { p.chmod(filepath.Join(p.options.Config.Data, "receipt.key.pem"), 0o644) }, "receipt key", "others can read", "chmod 600"},
		{"a receipt key that is none", nil, func(p *place) { p.write("data/receipt.key.pem", "nonsense") }, "receipt key", "receipt.key.pem", "restore it"},
		{"a public key of another key", nil, func(p *place) {
			other, err := receipt.GenerateKey()
			if err == nil {
				err = receipt.WritePublicKey(filepath.Join(p.options.Config.Data, config.PublicKeyFile), other.Public())
			}
			if err != nil {
				p.t.Fatal(err)
			}
		}, "receipt key", "is not the public key of", "verifiers"},
		{"a shared key that is missing", []string{"data: data", "data: data\nreceipt_key: none.pem"}, nil, "receipt key", "none.pem", "pawl receipt keygen"},
		{"another ledger", []string{"data: data", "data: data\nledger: {id: 00000000-0000-4000-8000-000000000000}"}, nil, "ledger id", "another ledger than ledger.id names", "ledger.id"},
		{"a ledger that all can open", nil, func(p *place) { p.chmod(filepath.Join(p.options.Config.Data, config.LedgerFile), 0o644) }, "ledger", "every user of this machine can open", "chmod 600"},
		{"a ledger that is none", nil, func(p *place) { p.write("data/"+config.LedgerFile, strings.Repeat("no database ", 100)) }, "ledger", "not an SQLite database", "mend that"},
		{"a clock that is off", nil, func(p *place) { p.options.Now = func() time.Time { return time.Now().Add(-time.Minute) } }, "clock", "differ by 1m0", "time service"},
		{"times that cannot hold", []string{"{unknown: hold}", "{unknown: hold, send_timeout: 55s}"}, nil, "channel file/audit",
			"send_timeout 55s + commit_bound 5s + margin 2s = 1m2s, which must be less than fence_ttl 1m0s", "channels.file/audit.policy"},
		{"a file of a password that all can read", []string{"config: {", "config: {password_file: $DIR/password, "}, func(p *place) {
			p.write("password", canary)
			p.chmod(filepath.Join(p.dir, "password"), 0o644)
		}, "configuration", "the secret that channels.file/audit.config.password_file names (mode 0644)", "chmod o-rwx"},
		{"a data directory that cannot be made", nil, func(p *place) {
			locked := filepath.Join(p.dir, "locked")
			if err := os.Mkdir(locked, 0o500); err != nil {
				p.t.Fatal(err)
			}
			p.options.Config.Data = filepath.Join(locked, "pawl", "data")
		}, "data directory", "cannot be made in", "make it"},
		{"an adapter's configuration", []string{"{path: $DIR/effects.jsonl}", "{pth: x, password: " + canary + "}"}, nil, "channel file/audit", "its adapter does not start", "under the channel's config"},
		{"an adapter that is not there", adapter("adapter: fiel"), nil, "channel file/audit", `names no bundled adapter; did you mean "file"?`, "correct its adapter"},
		{"a checksum that differs", adapter(`adapter: {path: $SELF, sha256: "` + strings.Repeat("0", 64) + `", args: [adapter, serve, file]}`), nil, "channel file/audit", "checksum is not the pinned one", "sha256sum"},
		{"an adapter that crashes", adapter("adapter: {path: $SELF, sha256: $SHA256, args: [" + crashes + "]}"), nil, "channel file/audit", "its adapter does not start", "by hand"},
		{"an API for others without TLS", []string{"127.0.0.1:0", "0.0.0.0:0"}, nil, "API", "others can reach 0.0.0.0:0 without TLS", "api.tls.cert"},
		{"an API for others without a token", []string{`listen: "127.0.0.1:0"`, `listen: "0.0.0.0:0", plain_text: true`}, nil, "API", "there is no good token", "pawl tokens create"},
		{"a certificate that is none", []string{`listen: "127.0.0.1:0"`, `listen: "127.0.0.1:0", tls: {cert: c.pem, key: k.pem}`}, nil, "API", "its certificate cannot be used", "another certificate"},
		{"a port that another program has", nil, func(p *place) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				p.t.Fatal(err)
			}
			p.t.Cleanup(func() { _ = l.Close() })
			go func() { // hangs up on whoever comes
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
			p.options.Config.API.Listen = l.Addr().String()
		}, "API", "another program has", "another port"},
		{"a Postgres that is not there", []string{"data: data", "data: data\nledger: {url: \"postgres://u:" + canary + "@127.0.0.1:1/d?connect_timeout=2\"}"}, nil, "ledger", "does not answer", "ledger.url"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := settle(t, tt.replace...)
			if tt.plant != nil {
				tt.plant(p)
			}
			wants(t, Look(t.Context(), p.options), tt.about, tt.what, tt.do)
		})
	}
}

// wants looks for a fault, and for what no finding may hold.
func wants(t *testing.T, found []Finding, about, what, do string) {
	t.Helper()
	named := false
	for _, f := range found {
		named = named || f.Level == Fault && f.About == about && strings.Contains(f.What, what) && strings.Contains(f.Do, do)
		if f.Level != OK && f.Do == "" {
			t.Errorf("it does not say what to do: %+v", f)
		}
		if strings.Contains(f.What+f.Do, canary) {
			t.Errorf("a secret is in %+v", f)
		}
	}
	if !named {
		t.Errorf("no fault about %s says %q and %q: %+v", about, what, do, found)
	}
	if Worst(found) != Fault {
		t.Errorf("the worst is %s", Worst(found))
	}
}

func TestAPostgresThatForgetsIsNamed(t *testing.T) {
	s := pgtest.NewServer(t, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	p := settle(t, "data: data", "data: data\nledger: {url: \""+s.Database(t)+"\"}")
	found := Look(t.Context(), p.options)
	wants(t, found, "durability", "fsync is off", "fsync = on")
	wants(t, found, "durability", "full_page_writes is off", "full_page_writes = on")
	for _, f := range found {
		if f.Level == Warning && strings.Contains(f.What, "synchronous_commit is off") {
			return
		}
	}
	t.Errorf("nothing is said of synchronous_commit: %+v", found)
}

func TestAPostgresIsLookedAtBeforeAndAfterItIsMigrated(t *testing.T) {
	p := settle(t, "data: data", "data: data\nledger: {url: \""+pgtest.Database(t)+"\"}")
	wants(t, Look(t.Context(), p.options), "migrations", "the ledger lacks: ", "pawl migrate up")
	if err := server.Migrate(t.Context(), p.options.Config); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range Look(t.Context(), p.options) {
		seen[f.About] = true
		if f.Level == Fault && f.About != "durability" { // a server for tests may forget
			t.Errorf("%+v", f)
		}
	}
	if !seen["durability"] || !seen["ledger id"] || !seen["clock"] {
		t.Errorf("it looked at %v", seen)
	}
}

func TestAPoolerIsNoticed(t *testing.T) {
	database := pgtest.Database(t)
	p := settle(t, "data: data", "data: data\nledger: {url: \""+database+"\"}")
	if err := server.Migrate(t.Context(), p.options.Config); err != nil {
		t.Fatal(err)
	}
	p.options.Config.Ledger.URL = config.URL(pgtest.Pooler(t, database))
	for _, f := range Look(t.Context(), p.options) {
		if f.About == "pooler" {
			return
		}
	}
	t.Error("nothing is said of it")
}

func TestKindsOfDisks(t *testing.T) {
	for kind, want := range map[int64]Level{fsNFS: Fault, fsCIFS: Fault, int64(int32(-0x1acb2be)): Fault, fsTmpfs: Warning, fsFUSE: Warning, 0xef53: OK} {
		if level, what := kindOfDisk(kind); level != want || what == "" {
			t.Errorf("%#x is %s: %s", kind, level, what)
		}
	}
}

func TestAMissingConfigurationIsSaid(t *testing.T) {
	_, err := config.LoadWith(filepath.Join(t.TempDir(), "none.yaml"), nil)
	found := Look(context.Background(), Options{Failed: err, Environ: []string{"PAWL_API_TOKEN=" + canary, "HOME=x"}})
	wants(t, found, "configuration", "no such file", "--config")
}
