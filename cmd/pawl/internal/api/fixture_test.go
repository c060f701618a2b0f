package api

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const (
	mailChannel = "mail/shop"
	fileChannel = "file/log"
	mailSchema  = `{"type":"object","required":["to","subject"],"properties":{"to":{"type":"string"},"subject":{"type":"string"},"text":{"type":"string"}}}`
)

// newLedger opens an SQLite ledger with a mail and a file channel, and the issuer of its receipts.
func newLedger(t testing.TB) (ledger.Ledger, receipt.Key) {
	t.Helper()
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := receipt.NewIssuer(receipt.Options{Name: "shop.example", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Signer: signer}
	if _, err := sqlite.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, l)
	putChannels(t, l)
	return l, key
}

func newPostgres(t testing.TB) ledger.Ledger {
	t.Helper()
	url := pgtest.Database(t)
	if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url}); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, l)
	putChannels(t, l)
	return l
}

func closeAfter(t testing.TB, l ledger.Ledger) {
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func putChannels(t testing.TB, l ledger.Ledger) {
	t.Helper()
	for _, row := range []ledger.ChannelRow{
		{Name: mailChannel, Kind: "mail", Sheet: channel.Sheet{Kind: "mail", Probe: channel.ProbeExact, PayloadSchema: json.RawMessage(mailSchema)}, Flag: ledger.FlagOn},
		{Name: fileChannel, Kind: "file", Sheet: channel.Sheet{Kind: "file"}, Flag: ledger.FlagOn},
	} {
		if err := l.PutChannel(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
}

// world is a service with its HTTP side.
type world struct {
	ledger  ledger.Ledger
	service *Service
	handler *handler
	server  *httptest.Server
	log     *lockedBuffer
}

func newWorld(t testing.TB, change ...func(*ServiceOptions, *HandlerOptions)) *world {
	t.Helper()
	l, key := newLedger(t)
	return worldOver(t, l, append([]func(*ServiceOptions, *HandlerOptions){func(s *ServiceOptions, _ *HandlerOptions) {
		s.PublicKey, s.Issuer = key.Public(), "shop.example"
	}}, change...)...)
}

func worldOver(t testing.TB, l ledger.Ledger, change ...func(*ServiceOptions, *HandlerOptions)) *world {
	t.Helper()
	log := new(lockedBuffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	so, ho := ServiceOptions{Ledger: l, Logger: logger}, HandlerOptions{Version: "test", Logger: logger, Rate: 1e6, Burst: 1e6}
	for _, c := range change {
		c(&so, &ho)
	}
	s, err := NewService(so)
	if err != nil {
		t.Fatal(err)
	}
	ho.Service = s
	h, err := newHandler(ho)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ledger: l, service: s, handler: h, server: httptest.NewServer(h), log: log}
	t.Cleanup(w.server.Close)
	return w
}

// token makes a token with the scopes and returns its secret.
func (w *world) token(t testing.TB, scopes ...string) string {
	t.Helper()
	issued := w.issue(t, scopes...)
	return issued.Secret
}

func (w *world) issue(t testing.TB, scopes ...string) pawlclient.IssuedAPIToken {
	t.Helper()
	issued, err := w.service.CreateAPIToken(WithActor(t.Context(), Actor{Name: "test"}), pawlclient.NewAPIToken{Name: "t" + uuid.NewString(), Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// reply is what came of one request.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) problem(t testing.TB) pawlclient.Problem {
	t.Helper()
	var p pawlclient.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q of a problem: %s", got, r.body)
	}
	if p.Status != r.status || p.Title == "" || p.Code == "" {
		t.Errorf("a problem of status %d says %s", r.status, r.body)
	}
	return p
}

func (r reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%v: status %d: %s", err, r.status, r.body)
	}
}

// call makes a request; body is JSON text, or a value to encode.
func (w *world) call(t testing.TB, token, method, path string, body any, change ...func(*http.Request)) reply {
	t.Helper()
	var from io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		from = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		from = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, from)
	if err != nil {
		t.Fatal(err)
	}
	if takesBody(method) {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(r)
	}
	return do(t, r)
}

func do(t testing.TB, r *http.Request) reply {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(raw)}
}

func mailClaim(run, key string) pawlclient.Claim {
	return pawlclient.Claim{RunID: run, EffectKey: key, Channel: mailChannel, Payload: json.RawMessage(`{"to":"ada@example.org","subject":"Hello","text":"Hello Ada"}`)}
}

func newRun() string { return uuid.NewString() }

// fenced takes the one intent for dispatch, and stamps it.
func fenced(t testing.TB, l ledger.Ledger, k ledger.Key) ledger.Intent {
	t.Helper()
	r, err := l.Fence(t.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "engine", TTL: time.Minute}, Channel: mailChannel, Limit: 1, Only: &k})
	if err != nil || len(r.Dispatches) != 1 {
		t.Fatalf("fence: %v, %d dispatches", err, len(r.Dispatches))
	}
	d := r.Dispatches[0].Intent
	token := channel.Token{Version: 1, Data: []byte("token of " + k.EffectKey)}
	stamped, err := l.Move(t.Context(), k, ledger.Stamp{Fence: d.Fence(), Token: &token, SendTimeout: time.Second, CommitBound: time.Second, Margin: time.Millisecond})
	if err != nil {
		t.Fatalf("stamp: %v", err)
	}
	return stamped.Intent
}

// committed commits the intent as an engine does.
func committed(t testing.TB, l ledger.Ledger, k ledger.Key) {
	t.Helper()
	i := fenced(t, l, k)
	_, err := l.Move(t.Context(), k, ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: "msg-" + k.EffectKey}, Established: ledger.BySend})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// held leaves the intent for a person.
func held(t testing.TB, l ledger.Ledger, k ledger.Key) ledger.Intent {
	t.Helper()
	i := fenced(t, l, k)
	r, err := l.Move(t.Context(), k, ledger.Hold{Fence: i.Fence(), Reason: "nobody can tell", Look: time.Hour})
	if err != nil {
		t.Fatalf("hold: %v", err)
	}
	return r.Intent
}
