package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const valid = `
data: data
issuer: organism:example:main
ledger: {url: "sqlite:here/ledger.db", id: 7d0a3c0e-6d0f-4a52-9f37-0b6f4d7a1c11}
log: {level: debug, format: json}
engine: {poll_every: 50ms, heartbeat_timeout: 1m, reclaim_runs: true}
channels:
  mail/marketing.eu:
    adapter: smtp
    config: {host: mail.example.org, password: hunter2, port: 587, list: [1, {a: null}]}
    approval_required: true
    rate_per_minute: 60
    policy: {unknown: hold, fence_ttl: 90s, concurrency: 4, no_probe: true}
  onchain/base:
    adapter: {path: bin/onchain, sha256: "` + pin + `", args: [serve, --fast], env: [RPC_URL], begin_proven: true}
    flag: shadow
    policy: {unknown: resend, accept_duplicates: duplicates are acceptable, lane: skip}
`

const pin = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string, environ ...string) Config {
	t.Helper()
	c, err := LoadWith(write(t, text), environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFileIsReadWhole(t *testing.T) {
	path := write(t, valid)
	dir := filepath.Dir(path)
	c, err := LoadWith(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Ledger.URL.Reveal(), "sqlite:"+dir+"/here/ledger.db"; got != want {
		t.Errorf("ledger.url is %q, want %q", got, want)
	}
	if got, want := c.Data, dir+"/data"; got != want {
		t.Errorf("data is %q, want %q", got, want)
	}
	if c.Engine.PollEvery != 50*time.Millisecond || c.Engine.HeartbeatTimeout != time.Minute || !c.Engine.ReclaimRuns {
		t.Errorf("engine is %+v", c.Engine)
	}
	mail := c.Channels["mail/marketing.eu"]
	if mail.Adapter.Name != "smtp" || !mail.ApprovalRequired || mail.RatePerMinute != 60 || !mail.Policy.NoProbe ||
		mail.Policy.FenceTTL != 90*time.Second || mail.Policy.Concurrency != 4 {
		t.Errorf("mail is %+v", mail)
	}
	var given map[string]any
	if err := json.Unmarshal(mail.Config.Reveal(), &given); err != nil || given["password"] != "hunter2" || given["port"] != 587.0 {
		t.Errorf("the adapter's configuration is %s (%v)", mail.Config.Reveal(), err)
	}
	chain := c.Channels["onchain/base"]
	if chain.Adapter.Path != dir+"/bin/onchain" || chain.Adapter.SHA256 != pin || len(chain.Adapter.Args) != 2 ||
		chain.Adapter.Env[0] != "RPC_URL" || !chain.Adapter.BeginProven || chain.Flag != "shadow" || chain.Policy.Lane != "skip" {
		t.Errorf("onchain is %+v", chain)
	}
}

func TestNoFileMeansTheEmbeddedLedger(t *testing.T) {
	c, err := LoadWith("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Ledger.URL.Reveal(); got != "sqlite:pawl-data/ledger.db" || c.Data != "pawl-data" || c.Issuer != DefaultIssuer {
		t.Errorf("ledger %q, data %q, issuer %q", got, c.Data, c.Issuer)
	}
	if d := Default(); d.Ledger.URL != c.Ledger.URL {
		t.Errorf("Default has ledger %q, Load %q", d.Ledger.URL.Reveal(), c.Ledger.URL.Reveal())
	}
}

func TestEveryFaultIsOneLineThatNamesKeyPlaceAndFix(t *testing.T) {
	channel := func(body string) string { return "channels:\n  file/a:\n    adapter: file\n" + body }
	tests := []struct{ name, text, want string }{
		{"a channel's key", channel("    polcy: {}\n    policy: {unknown: hold}\n"), `pawl.yaml:4:5: channels.file/a.polcy: unknown key; did you mean "policy"?`},
		{"a key of nothing near", "xyzzyxyzzy: 1\n", `pawl.yaml:1:1: xyzzyxyzzy: unknown key; use one of api, channels, data, engine, issuer, ledger, log, mailbox, metrics, receipt_key, tracing`},
		{"a key of the engine", "engine:\n  poll_evry: 1s\n", `pawl.yaml:2:3: engine.poll_evry: unknown key; did you mean "poll_every"?`},
		{"a policy's key", channel("    policy: {unknown: hold, fence_tll: 1m}\n"), `pawl.yaml:4:29: channels.file/a.policy.fence_tll: unknown key; did you mean "fence_ttl"?`},
		{"a policy not stated", channel("    flag: on\n"), `pawl.yaml:2:3: channels.file/a.policy.unknown: must be stated: hold (a person decides), abandon (at most once) or resend (at least once)`},
		{"an unknown policy", channel("    policy: {unknown: drop}\n"), `pawl.yaml:4:14: channels.file/a.policy.unknown: is none of hold, abandon, resend`},
		{"a duration without a unit", "engine: {scan_every: 30}\n", `pawl.yaml:1:10: engine.scan_every: must be a duration with a unit, such as 30s or 2m, is a whole number`},
		{"a duration that is none", "engine: {scan_every: soon}\n", `pawl.yaml:1:10: engine.scan_every: is no duration; use a number with a unit, such as 30s or 2m`},
		{"a negative duration", "engine: {scan_every: -1s}\n", `pawl.yaml:1:10: engine.scan_every: must be more than 0, is -1s; leave it out for the default`},
		{"a word for a number", channel("    rate_per_minute: many\n    policy: {unknown: hold}\n"), `pawl.yaml:4:5: channels.file/a.rate_per_minute: must be a whole number, is text`},
		{"a number for a word", "issuer: 7\n", `pawl.yaml:1:1: issuer: must be text, is a whole number; put it in quotes`},
		{"a list for a mapping", "ledger: [1]\n", `pawl.yaml:1:1: ledger: must be a mapping, is a list`},
		{"a ledger of no kind", "ledger: {url: 'mysql://u:secret@h/db'}\n", `pawl.yaml:1:10: ledger.url: is neither sqlite:PATH nor postgres://…`},
		{"a ledger with slashes", "ledger: {url: 'sqlite:///tmp/x'}\n", `pawl.yaml:1:10: ledger.url: has slashes after sqlite:; use sqlite:PATH, such as sqlite:/var/lib/pawl/ledger.db`},
		{"a ledger id", "ledger: {id: mine}\n", `pawl.yaml:1:10: ledger.id: is not a UUID; copy it from: pawl migrate status`},
		{"a schema for sqlite", "ledger: {url: 'sqlite:x', schema: y}\n", `pawl.yaml:1:27: ledger.schema: is for postgres:// ledgers only; remove it`},
		{"a channel's name", "channels:\n  Mail:\n    adapter: smtp\n    policy: {unknown: hold}\n", `pawl.yaml:2:3: channels.Mail: is no channel name; use kind or kind/name, such as mail/marketing`},
		{"an adapter without a pin", "channels:\n  x:\n    adapter: {path: y}\n    policy: {unknown: hold}\n", `pawl.yaml:3:5: channels.x.adapter.sha256: is missing: pin the program with the output of sha256sum`},
		{"a pin that is none", "channels:\n  x:\n    adapter: {path: y, sha256: abc}\n    policy: {unknown: hold}\n", `pawl.yaml:3:24: channels.x.adapter.sha256: is not the hex form of a SHA-256 digest (64 characters); make it with sha256sum`},
		{"no adapter", "channels:\n  x:\n    policy: {unknown: hold}\n", `pawl.yaml:2:3: channels.x.adapter: is missing: name a bundled adapter, or a program by path and sha256`},
		{"two adapters", "channels:\n  x:\n    adapter: {name: file, path: y, sha256: '" + pin + "'}\n    policy: {unknown: hold}\n", `pawl.yaml:3:5: channels.x.adapter: has both name and path; keep one`},
		{"a list in the adapter's configuration", channel("    config: [1]\n    policy: {unknown: hold}\n"), `pawl.yaml:4:5: channels.file/a.config: must be a mapping, is a list`},
		{"a number without JSON", channel("    config: {x: .nan}\n    policy: {unknown: hold}\n"), `pawl.yaml:4:5: channels.file/a.config: holds a value that has no JSON form (such as .nan); remove it`},
		{"a log level", "log: {level: loud}\n", `pawl.yaml:1:7: log.level: is none of debug, info, warn, error`},
		{"a key twice", "data: x\ndata: y\n", `pawl.yaml:2: is not YAML that can be read: mapping key "data" already defined at line 1`},
		{"broken YAML", "data: [\n", `pawl.yaml:1: is not YAML that can be read: did not find expected node content`},
		{"two documents", "data: x\n---\ndata: y\n", `pawl.yaml: holds more than one YAML document; keep one`},
		{"no mapping", "- data\n", `pawl.yaml:1:1: is not a mapping of keys to values`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text)
			_, err := LoadWith(path, nil)
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("err is %v, want an *Error", err)
			}
			got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAllFaultsAreFoundAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := LoadWith(write(t, "isuer: x\nlog: {level: loud}\nengine: {poll_every: 5, stop_grce: 1s}\n"), []string{"PAWL_ENGINE_SCAN_EVERY=soon"})
	var faults *Error
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range faults.Faults {
		keys = append(keys, f.Key)
	}
	if got, want := strings.Join(keys, " "), "isuer log.level engine.poll_every engine.stop_grce engine.scan_every"; got != want {
		t.Errorf("faults are %s, want %s", got, want)
	}
}

func TestAnEnvironmentVariableOverridesItsKey(t *testing.T) {
	c := load(t, valid, "PAWL_LEDGER_URL=postgres://u:pw@h/db", "PAWL_ENGINE_POLL_EVERY=2s", "PAWL_ENGINE_RECLAIM_RUNS=false",
		"PAWL_CHANNELS_MAIL_MARKETING_EU_RATE_PER_MINUTE=7", "PAWL_CHANNELS_ONCHAIN_BASE_POLICY_UNKNOWN=hold", "OTHER=x")
	if c.Ledger.URL.Reveal() != "postgres://u:pw@h/db" || c.Engine.PollEvery != 2*time.Second || c.Engine.ReclaimRuns {
		t.Errorf("ledger %q, engine %+v", c.Ledger.URL.Reveal(), c.Engine)
	}
	if c.Channels["mail/marketing.eu"].RatePerMinute != 7 || c.Channels["onchain/base"].Policy.Unknown != "hold" {
		t.Errorf("channels are %+v", c.Channels)
	}
	if c.Channels["mail/marketing.eu"].Adapter.Name != "smtp" {
		t.Error("an override of one key lost another one")
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestAWrongVariableIsNamed(t *testing.T) {
	_, err := LoadWith(write(t, valid), []string{"PAWL_ENGINE_POLL_EVERY=often", "PAWL_CHANNELS_MAIL_MARKETING_EU_POLICY_CONCURRENCY=two"})
	want := "PAWL_CHANNELS_MAIL_MARKETING_EU_POLICY_CONCURRENCY: channels.mail/marketing.eu.policy.concurrency: must be a whole number, is text\n" +
		`PAWL_ENGINE_POLL_EVERY: engine.poll_every: is no duration; use a number with a unit, such as 30s or 2m`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	c := load(t, valid, "PAWL_LEDGR_URL=x", "PAWL_SERVICE_HOST=10.0.0.1", "PAWL_PORT_80_TCP=x", "PAWL_CONFIG=x")
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `PAWL_LEDGR_URL is not used; did you mean "PAWL_LEDGER_URL"?`) {
		t.Errorf("warnings: %q", c.Warnings)
	}
	two := "channels:\n  file/a.b: {adapter: file, policy: {unknown: hold}}\n  file/a-b: {adapter: file, policy: {unknown: hold}}\n"
	_, err = LoadWith(write(t, two), []string{"PAWL_CHANNELS_FILE_A_B_FLAG=off"})
	if err == nil || !strings.HasPrefix(err.Error(), "PAWL_CHANNELS_FILE_A_B_FLAG: could mean channels.file/a-b.flag or channels.file/a.b.flag") {
		t.Errorf("an ambiguous variable gives %v", err)
	}
}

func TestAMergedMappingKeepsItsPlaces(t *testing.T) {
	text := "channels:\n  file/a: &usual\n    adapter: file\n    policy: {unknown: hold}\n  file/b:\n    <<: *usual\n    flga: off\n"
	_, err := LoadWith(write(t, text), nil)
	if err == nil || !strings.Contains(err.Error(), `pawl.yaml:7:5: channels.file/b.flga: unknown key; did you mean "flag"?`) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	c := load(t, strings.ReplaceAll(text, "    flga: off\n", ""))
	if c.Channels["file/b"].Policy.Unknown != "hold" {
		t.Errorf("file/b is %+v", c.Channels["file/b"])
	}
}

func TestAConfigurationNeverPrintsItsSecrets(t *testing.T) {
	c := load(t, strings.ReplaceAll(valid, "sqlite:here/ledger.db", "postgres://u:hunter2@h/db?password=hunter2"))
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "config", c, "channel", c.Channels["mail/marketing.eu"], "url", c.Ledger.URL)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{logged.String(), string(asJSON), fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c),
		fmt.Sprintf("%+v", c.Channels), fmt.Sprintf("%#v", c.Channels), fmt.Sprintf("%v %s", c.Ledger.URL, c.Channels["mail/marketing.eu"].Config)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is printed: %s", text)
		}
	}
	_, err = LoadWith(write(t, "ledger: {url: 'mysql://u:hunter2@h'}\nissuer: {password: hunter2}\n"), nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an error prints a secret: %v", err)
	}
}

func TestAPasswordThatIsNoYAMLIsNotPrinted(t *testing.T) {
	for _, password := range []string{"*hunter2", "!!int hunter2", "!!float hunter2", "!!bool it's hunter2", "@hunter2", `"hunter2`, "hunter2: x", "{hunter2", "{? {a: hunter2} : b}"} {
		_, err := LoadWith(write(t, "channels:\n  file/a:\n    config:\n      password: "+password+"\n"), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", password, err)
		}
	}
}

func TestNearestNameIsTheOneMeant(t *testing.T) {
	known := []string{"issuer", "ledger", "log", "data"}
	for name, want := range map[string]string{
		"isuer": `did you mean "issuer"?`, "legder": `did you mean "ledger"?`, "lgo": `did you mean "log"?`,
		"something": "use one of data, issuer, ledger, log",
	} {
		if got := Suggest(name, known); got != want {
			t.Errorf("Suggest(%q) is %q, want %q", name, got, want)
		}
	}
}

func FuzzAFileNeverPanics(f *testing.F) {
	f.Add(valid)
	f.Add("a: &a [*a]")
	f.Add("? [x]\n: y\n")
	f.Add("channels: {1: {}, ~: {}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := read("pawl.yaml", []byte(text), nil)
		var faults *Error
		if errors.As(err, &faults) && len(faults.Faults) == 0 {
			t.Error("an error without a fault")
		}
	})
}

func TestADeviceWithoutAnEndIsNoConfiguration(t *testing.T) {
	if _, err := LoadWith("/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "/dev/zero has more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}
