package main_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

// canaries are secrets that must come out nowhere.
type canaries struct {
	t     *testing.T
	names map[string]string // by value
}

func (c *canaries) plant(name string) string {
	raw := make([]byte, 9)
	if _, err := rand.Read(raw); err != nil {
		c.t.Fatal(err)
	}
	value := "canary" + hex.EncodeToString(raw)
	c.names[value] = name
	return value
}

// search requires that no canary is in the text.
func (c *canaries) search(where string, text []byte) {
	c.t.Helper()
	if name, at := c.find(text); name != "" {
		c.t.Errorf("%s shows the secret %s: …%q…", where, name, text[max(0, at-200):min(len(text), at+100)])
	}
}

// find looks for every canary, as it is and in the forms in which a mail server or a database may give it back.
func (c *canaries) find(text []byte) (name string, at int) {
	lower := bytes.ToLower(text)
	for value, name := range c.names {
		if at := bytes.Index(lower, []byte(strings.ToLower(value))); at >= 0 {
			return name, at
		}
		forms := []string{hex.EncodeToString([]byte(value)), url.QueryEscape(value)}
		for shift := range 3 { // base64 of something that has it inside, less the ends that its neighbours change
			inner := base64.StdEncoding.EncodeToString(append(make([]byte, shift), value...))
			forms = append(forms, inner[4:len(inner)-4])
		}
		for _, form := range forms {
			if at := bytes.Index(text, []byte(form)); at >= 0 {
				return name, at
			}
		}
	}
	return "", 0
}

func TestACanaryIsFoundInEveryFormThatItTakes(t *testing.T) {
	c := &canaries{t: t, names: map[string]string{}}
	value := c.plant("one")
	for _, text := range []string{
		"x" + value + "y", strings.ToUpper(value), `{"token": "\\x00` + hex.EncodeToString([]byte(value)) + `"}`,
		base64.StdEncoding.EncodeToString([]byte("\x00robot\x00" + value)), base64.StdEncoding.EncodeToString([]byte("\x00robo\x00" + value)),
		base64.StdEncoding.EncodeToString([]byte("\x00rob\x00" + value + "\x01\x01")),
	} {
		if name, _ := c.find([]byte(text)); name != "one" {
			t.Errorf("it is not found in %q", text)
		}
	}
	if name, _ := c.find([]byte("nothing of it")); name != "" {
		t.Error("it is found where it is not")
	}
}

// parrot is a mail server that refuses every login and says back all that it was told.
func parrot(t *testing.T) (host string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				fmt.Fprint(conn, "220 parrot\r\n")
				heard := ""
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					line := lines.Text()
					verb, rest, _ := strings.Cut(line, " ")
					switch strings.ToUpper(verb) {
					case "EHLO":
						fmt.Fprint(conn, "250-parrot\r\n250 AUTH PLAIN LOGIN XOAUTH2\r\n")
						continue
					case "QUIT":
						fmt.Fprint(conn, "221 bye\r\n")
						return
					}
					for _, word := range append(strings.Fields(rest), line) {
						if raw, err := base64.StdEncoding.DecodeString(word); err == nil {
							heard += " " + strings.Map(printable, string(raw))
						}
					}
					heard += " " + line
					fmt.Fprintf(conn, "535 5.7.8 no: %s\r\n", heard[max(0, len(heard)-400):])
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); sessions.Wait() })
	at := l.Addr().(*net.TCPAddr)
	return at.IP.String(), at.Port
}

func printable(r rune) rune {
	if r < 0x20 || r > 0x7e {
		return ' '
	}
	return r
}

// collector takes traces and keeps their bytes.
type collector struct {
	mu    sync.Mutex
	heard bytes.Buffer
	calls int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(r.Body); err == nil {
			body = z
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	_, _ = io.Copy(&c.heard, body)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func TestNoSecretOfTheConfigurationComesOutAnywhere(t *testing.T) {
	secret := &canaries{t: t, names: map[string]string{}}
	database := pgtest.Database(t)
	withPassword, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	withPassword.User = url.UserPassword(withPassword.User.Username(), secret.plant("ledger.url's password"))
	host, port := parrot(t)
	traces := &collector{}
	otlp := httptest.NewServer(traces)
	defer otlp.Close()

	s := newSceneOn(t, database, "mail/promise", "smtp", map[string]any{
		"host": host, "port": port, "tls": "none", "from": "robot@example.test", "connect_timeout": "2s", "server_session_timeout": "1s",
		"username": "robot", "password": secret.plant("config.password"), "allow_plaintext_password": true,
		"imap": map[string]any{
			"host": host, "port": port, "tls": "none", "username": "robot", "password": secret.plant("config.imap.password"),
			"allow_plaintext_password": true, "timeout": "1s",
		},
	})
	tokenFile := filepath.Join(s.dir, "access-token")
	if err := os.WriteFile(tokenFile, []byte(secret.plant("config.oauth2.token_file")), 0o600); err != nil {
		t.Fatal(err)
	}
	keyFile, err := os.ReadFile(filepath.Join(s.dir, "receipt.pem"))
	if err != nil {
		t.Fatal(err)
	}
	secret.names[strings.Split(string(keyFile), "\n")[1]] = "the receipt key"
	s.url = withPassword.String()

	e := s.service("serve", nil)
	policy := clone(s.policy)
	e.config = s.writeConfigWith("serve", s.url, nil, map[string]any{
		"api":     map[string]any{"listen": e.api},
		"tracing": map[string]any{"endpoint": otlp.URL, "headers": map[string]any{"x-api-key": secret.plant("tracing.headers")}},
		"channels": map[string]any{
			"mail/promise": map[string]any{"adapter": "smtp", "config": s.settings, "policy": policy},
			"mail/oauth": map[string]any{
				"adapter": map[string]any{"name": "smtp", "env": []string{"CANARY_ENV"}}, "policy": policy,
				"config": map[string]any{
					"host": host, "port": port, "tls": "none", "from": "robot@example.test", "connect_timeout": "2s", "server_session_timeout": "1s",
					"username": "robot", "oauth2": map[string]any{"token_file": tokenFile}, "allow_plaintext_password": true,
				},
			},
			"mail/misconfigured": map[string]any{
				"adapter": "smtp", "policy": policy,
				"config": map[string]any{"host": host, "pasword": secret.plant("an unknown key of an adapter's configuration"), "from": secret.plant("an address that is none")},
			},
			"file/elsewhere": map[string]any{
				"adapter": "file", "policy": policy, "config": map[string]any{"path": filepath.Join(s.dir, "effects.jsonl")},
			},
		},
	})
	e.environ = append(e.environ, "CANARY_ENV="+secret.plant("a variable that an adapter may see"))
	e.start()
	e.awaitReady()
	token := s.command(e, "tokens", "create", "reader", "--scope", "admin", "--quiet")
	secret.names[strings.TrimSpace(token)] = "an API token"

	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for _, name := range []string{"mail/promise", "mail/oauth"} {
		s.channel = name
		k := s.claimMail("to nobody")
		s.eventually("the login of "+name+" is refused", func() error {
			row, err := s.ledger.ChannelRow(ctx, name)
			if i, _, _ := s.ledger.Intent(ctx, k); err == nil && !row.Paused && i.LastError == "" {
				err = fmt.Errorf("it is %s, last error %q", i.State, i.LastError)
			}
			return err
		})
	}
	s.channel = "file/elsewhere"
	done := s.claim(ledger.Claim{RunID: s.run, EffectKey: "file:one", Channel: s.channel, Payload: []byte(`{"n":1}`)})[0]
	s.await(done, "is committed", committed)

	get := func(path string, authorised bool) []byte {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorised {
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if authorised && answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", path, answer.Status, body)
		}
		return body
	}
	for _, path := range []string{
		"/docs", "/openapi.json", "/metrics", "/readyz", "/healthz", "/v1/intents", "/v1/holds", "/v1/channels", "/v1/receipts", "/v1/receipts/key", "/v1/stats",
		"/v1/engines", "/v1/epochs", "/v1/tokens", "/v1/audit", "/v1/whoami", "/v1/intents/" + s.run + "/file:one?payload=true",
		"/v1/channels/mail%2Fpromise", "/v1/channels/mail%2Foauth",
	} {
		body := get(path, true)
		if len(body) == 0 && path != "/healthz" {
			t.Errorf("%s is empty", path)
		}
		secret.search(path, body)
		secret.search(path+" without a token", get(path, false))
	}
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}, {"channels", "list", "--json"}, {"intents", "list", "--json"}, {"tokens", "list", "--json"},
		{"audit", "list", "--json"}, {"explain", s.run, "file:one"}, {"intents", "show", s.run, "file:one", "--payload"}, {"migrate", "status"}, {"epoch", "show"},
	} {
		secret.search("pawl "+strings.Join(args, " "), []byte(s.command(e, args...)))
	}
	stored, err := s.ledger.ReceiptsOf(ctx, done)
	if err != nil || len(stored) == 0 {
		t.Fatalf("receipts: %v", err)
	}
	for _, r := range stored {
		var envelope struct{ Payload []byte }
		if err := json.Unmarshal(r.Envelope, &envelope); err != nil || len(envelope.Payload) == 0 {
			t.Fatalf("a receipt that cannot be read: %v", err)
		}
		secret.search("a receipt", append(envelope.Payload, r.Envelope...))
	}
	e.stopInOrder()
	log, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	secret.search("the log", log)
	if !bytes.Contains(log, []byte("535")) && !bytes.Contains(log, []byte("credentials")) {
		t.Errorf("the log says nothing of the refused logins: the test shows nothing\n%s", log)
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	if traces.calls == 0 {
		t.Error("no trace was collected")
	}
	secret.search("the traces", traces.heard.Bytes())
	secret.search("the database", dump(t, database))
}

// command runs the command as an operator of the engine's configuration does, and returns all that it prints.
func (s *scene) command(e *engine, args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.ctx, s.program, append(args, "--config", e.config)...)
	c.Env = append(os.Environ(), e.environ...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
		s.t.Errorf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// dump is every row of every table.
func dump(t *testing.T, database string) []byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 10 {
		t.Fatalf("tables %v: %v", tables, err)
	}
	var all bytes.Buffer
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), "SELECT row_to_json(t)::text FROM "+table+" t")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", table, strings.Join(lines, "\n"))
	}
	return all.Bytes()
}
