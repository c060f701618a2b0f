package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAServiceIsReadWhole(t *testing.T) {
	path := write(t, `
api: {listen: "0.0.0.0:7000", tls: {cert: c.pem, key: /k.pem}, plain_text: true, requests_per_minute: 90, max_body: 4096, drain: 1s}
metrics: {listen: "127.0.0.1:7001"}
tracing: {endpoint: "http://127.0.0.1:4318", ratio: 0.25, headers: {authorization: hunter2}}
mailbox: {smtp: "127.0.0.1:7002", imap: "[::1]:7003", session_timeout: 3s}
ledger: {leases: {table: host.runs, run_id: id, owner: worker, number: fence, expires_at: until, status: state, live: [running, leased]}}
`)
	c, err := LoadWith(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := API{Listen: "0.0.0.0:7000", TLS: TLS{filepath.Join(filepath.Dir(path), "c.pem"), "/k.pem"}, PlainText: true, RequestsPerMinute: 90, MaxBody: 4096, Drain: time.Second}
	if c.API != want || !c.API.TLS.On() {
		t.Errorf("api is %+v, want %+v", c.API, want)
	}
	if c.Metrics.Listen != "127.0.0.1:7001" || c.Mailbox != (Mailbox{"127.0.0.1:7002", "[::1]:7003", 3 * time.Second}) || !c.Mailbox.On() {
		t.Errorf("metrics %+v, mailbox %+v", c.Metrics, c.Mailbox)
	}
	if c.Tracing.Endpoint != "http://127.0.0.1:4318" || c.Tracing.Ratio != 0.25 || string(c.Tracing.Headers.Reveal()) != `{"authorization":"hunter2"}` {
		t.Errorf("tracing is %+v", c.Tracing)
	}
	if got := fmt.Sprint(c.Ledger.Leases); got != "{host.runs id worker fence until state [running leased]}" {
		t.Errorf("leases are %s", got)
	}
	if text := fmt.Sprintf("%+v %#v %v", c, c.Tracing, c.Tracing); strings.Contains(text, "hunter2") {
		t.Errorf("a header is printed: %s", text)
	}
}

func TestAServiceNeedsNoKey(t *testing.T) {
	c := load(t, "data: x\n")
	if c.API.Listen != DefaultListen || c.API.Drain != 0 || c.API.TLS.On() || c.Mailbox.On() || c.Tracing.Ratio != 1 {
		t.Errorf("api %+v, mailbox %+v, tracing %+v", c.API, c.Mailbox, c.Tracing)
	}
	if c := load(t, "data: x\n", "PAWL_API_LISTEN=0.0.0.0:80", "PAWL_TRACING_ENDPOINT=http://h:1", "PAWL_TRACING_RATIO=0.5", "PAWL_API_PLAIN_TEXT=true"); c.API.Listen != "0.0.0.0:80" ||
		c.API.Drain != DefaultDrain || c.Tracing.Ratio != 0.5 || !c.API.PlainText || len(c.Warnings) > 0 {
		t.Errorf("api %+v, tracing %+v, warnings %q", c.API, c.Tracing, c.Warnings)
	}
}

func TestEveryFaultOfAServiceNamesKeyAndFix(t *testing.T) {
	tests := []struct{ text, want string }{
		{"api: {listen: '7240'}", `pawl.yaml:1:7: api.listen: is no address; use host:port, such as 127.0.0.1:7240`},
		{"api: {listen: 'h:99999'}", `pawl.yaml:1:7: api.listen: is no address; use host:port, such as 127.0.0.1:7240`},
		{"api: {tls: {cert: c}}", `pawl.yaml:1:7: api.tls.key: is missing beside cert: name the file of the private key`},
		{"api: {tls: {key: c}}", `pawl.yaml:1:7: api.tls.cert: is missing beside key: name the file of the certificate`},
		{"api: {max_body: 7}", `pawl.yaml:1:7: api.max_body: must be from 1024 to 67108864 bytes, is 7`},
		{"api: {requests_per_minute: -7}", `pawl.yaml:1:7: api.requests_per_minute: must not be negative, is -7`},
		{"api: {tsl: {}}", `pawl.yaml:1:7: api.tsl: unknown key; did you mean "tls"?`},
		{"metrics: {listen: 'h:1'}\napi: {listen: 'h:1'}", `pawl.yaml:1:11: metrics.listen: is the address of the API; choose another port, or leave it out: the API has /metrics, too`},
		{"metrics: {listen: '127.0.0.1:7240'}\napi: {listen: ':7240', plain_text: true}", `pawl.yaml:1:11: metrics.listen: is the address of the API; choose another port, or leave it out: the API has /metrics, too`},
		{"tracing: {endpoint: '127.0.0.1:4318'}", `pawl.yaml:1:11: tracing.endpoint: is no URL of a collector; use http(s)://host:port, such as http://127.0.0.1:4318`},
		{"tracing: {endpoint: 'http://u:hunter2@h'}", `pawl.yaml:1:11: tracing.endpoint: holds a user or a password; put them into tracing.headers`},
		{"tracing: {endpoint: 'http://h', ratio: 2}", `pawl.yaml:1:33: tracing.ratio: must be from 0 to 1, is 2`},
		{"tracing: {endpoint: 'http://h', ratio: .nan}", `pawl.yaml:1:33: tracing.ratio: must be from 0 to 1, is NaN`},
		{"tracing: {endpoint: 'http://h', ratio: all}", `pawl.yaml:1:33: tracing.ratio: must be a number, is text`},
		{"tracing: {endpoint: 'http://h', headers: {a: 7}}", `pawl.yaml:1:33: tracing.headers: must be a mapping of names to text; put the values in quotes`},
		{"tracing: {ratio: 1}", `pawl.yaml:1:1: tracing.endpoint: is missing: without it no trace is sent`},
		{"ledger: {leases: {owner: x}}", `pawl.yaml:1:10: ledger.leases.table: is missing: name the table that the columns belong to`},
		{"ledger: {leases: {table: x, run_id: id, owner: o, number: n, expires_at: ''}}", `pawl.yaml:1:62: ledger.leases.expires_at: is empty; name it`},
		{"ledger: {leases: {table: x, run_id: id, owner: o, number: n, expires_at: e, status: s}}", `pawl.yaml:1:10: ledger.leases.live: name the values of "s" in which a lease can be held`},
		{"ledger: {leases: {table: x, run_id: id, owner: id, number: n, expires_at: e}}", `pawl.yaml:1:41: ledger.leases.owner: is column "id", and so is run_id`},
		{"mailbox: {smtp: 'localhost:1'}", `pawl.yaml:1:1: mailbox.imap: is missing: the mailbox needs both smtp and imap, each host:port on loopback`},
		{"mailbox: {smtp: '0.0.0.0:1', imap: '127.0.0.1:2'}", `pawl.yaml:1:11: mailbox.smtp: must be on loopback, such as 127.0.0.1:7241: it is for trying out, and its password is known to everybody`},
		{"mailbox: {session_timeout: 1s}", `pawl.yaml:1:1: mailbox.smtp: is missing: without it there is no mailbox`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			path := write(t, tt.text+"\n")
			_, err := LoadWith(path, nil)
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("err is %v, want an *Error", err)
			}
			if got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestOnlyThisHostReachesLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example.org:1": false, "127.0.0.1": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("Loopback(%q) is %v", address, got)
		}
	}
}

func TestTheStarterIsAConfigurationAndSoIsWhatItsCommentsShow(t *testing.T) {
	dir := t.TempDir()
	text, err := Starter(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, DefaultFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadWith(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Names(), " "); got != "file/audit mail/demo" || !c.Mailbox.On() || c.Ledger.URL.Reveal() != "sqlite:"+dir+"/pawl-data/ledger.db" {
		t.Errorf("channels %s, mailbox %+v, ledger %s", got, c.Mailbox, c.Ledger.URL)
	}
	if !strings.Contains(string(c.Channels["file/audit"].Config.Reveal()), dir+"/pawl-data/audit.jsonl") {
		t.Errorf("the audit file is %s", c.Channels["file/audit"].Config.Reveal())
	}
	// The comments are examples: without their mark they are keys that exist, of the right types.
	var shown []string
	for line := range strings.SplitSeq(string(text), "\n") {
		indent, rest, commented := strings.Cut(line, "# ")
		key, value, isKey := strings.Cut(strings.TrimLeft(rest, " "), ":")
		if commented && strings.TrimSpace(indent) == "" && isKey && !strings.Contains(strings.TrimSpace(key), " ") && !strings.Contains(key, "`") &&
			(value == "" || strings.HasPrefix(value, " ")) {
			shown = append(shown, indent+strings.TrimPrefix(rest, "# "))
			continue
		}
		if !commented || strings.TrimSpace(indent) != "" {
			shown = append(shown, line)
		}
	}
	all := strings.Join(shown, "\n")
	if strings.Count(all, "\n    adapter:") < 4 || !strings.Contains(all, "\n  listen: 0.0.0.0:7240") || !strings.Contains(all, "receipt_key: ") {
		t.Fatalf("the comments were not read as examples:\n%s", all)
	}
	if _, err := LoadWith(write(t, all), nil); err != nil {
		t.Errorf("%v\n%s", err, all)
	}
}

func TestWithoutAFileTheStarterIsRead(t *testing.T) {
	c, err := LoadStarter([]string{"PAWL_API_LISTEN=127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	if c.Ledger.URL != d.Ledger.URL || c.Data != d.Data || c.Issuer != d.Issuer {
		t.Errorf("other commands would look into another ledger: %s, %s, %s", c.Ledger.URL, c.Data, c.Issuer)
	}
	if c.API.Listen != "127.0.0.1:0" || len(c.Channels) != 2 {
		t.Errorf("api %+v, channels %v", c.API, c.Names())
	}
}
