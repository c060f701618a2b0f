package smtp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/core/channel"
)

const (
	clientSecret = "client-secret-1"
	firstGrant   = "refresh-token-0"
)

// provider is an authorization server: it gives tokens, and the mail server asks it whether one is good.
type provider struct {
	server  *httptest.Server
	dir     string
	mu      sync.Mutex
	asked   int
	refresh string          // the refresh token that is good
	rotates bool            // each answer has a new one
	good    map[string]bool // access tokens
	answer  func(w http.ResponseWriter) (answered bool)
	faults  []string
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{dir: t.TempDir(), refresh: firstGrant, good: map[string]bool{}}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	p.write(t, "refresh", firstGrant+"\n")
	p.write(t, "secret", clientSecret+"\n")
	return p
}

func (p *provider) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *provider) path(name string) string { return filepath.Join(p.dir, name) }

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.answer != nil && p.answer(w) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.FormValue("client_id") != "client-1" || r.FormValue("client_secret") != clientSecret || r.FormValue("grant_type") != "refresh_token" ||
		r.FormValue("scope") != "mail offline" || r.FormValue("refresh_token") != p.refresh || r.URL.RawQuery != "" {
		p.faults = append(p.faults, r.Form.Encode())
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"not %s"}`, r.FormValue("refresh_token"))
		return
	}
	token := fmt.Sprintf("access-token-%d", p.asked)
	p.good[token] = true
	answer := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600}
	if p.rotates {
		p.refresh = fmt.Sprintf("refresh-token-%d", p.asked)
		answer["refresh_token"] = p.refresh
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// accept is what the mail server asks.
func (p *provider) accept(username, token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return username == mailbox.DefaultUser && p.good[token]
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// endpoint configures the refresh of tokens.
func (p *provider) endpoint() map[string]any {
	return map[string]any{
		"token_url": p.server.URL, "client_id": "client-1", "client_secret_file": p.path("secret"), "refresh_token_file": p.path("refresh"),
		"scope": "mail offline",
	}
}

// with configures a channel whose mail server and mailbox both take tokens.
func (p *provider) with(t *testing.T, oauth2 map[string]any, change ...func(*mailbox.Options)) (*mailbox.Mailbox, channel.Channel) {
	t.Helper()
	o := mailbox.Options{RequireAuth: true, AcceptToken: p.accept}
	for _, f := range change {
		f(&o)
	}
	m := box(t, o)
	return m, open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{
		"tls": "starttls", "username": mailbox.DefaultUser, "oauth2": oauth2, "imap.password": "", "imap.oauth2": oauth2,
	}))
}

// sends sends a mail of its own and returns what that means, and the error.
func sends(t *testing.T, c channel.Channel, key string) (string, error) {
	t.Helper()
	outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf(key, payload)))
	return class(outcome, err), err
}

func wants(t *testing.T, c channel.Channel, key, want string, words ...string) {
	t.Helper()
	got, err := sends(t, c, key)
	if got != want {
		t.Fatalf("%s: Send means %q (%v), want %q", key, got, err, want)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v does not speak of %q", key, err, word)
		}
	}
	if err != nil {
		for _, secret := range []string{clientSecret, "refresh-token", "access-token", "wrong-token"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows a secret: %v", key, err)
			}
		}
	}
}

func TestMailIsSentAndFoundWithAccessTokens(t *testing.T) {
	for name, change := range map[string]func(*mailbox.Options){
		"XOAUTH2":     func(*mailbox.Options) {},
		"OAUTHBEARER": func(o *mailbox.Options) { o.OnlyOAuthBearer = true },
	} {
		t.Run(name, func(t *testing.T) {
			p := startProvider(t)
			m, c := p.with(t, p.endpoint(), change)
			a := attemptOf(t, c, intentOf("one", payload))
			for range 3 {
				if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
					t.Fatal(err)
				}
			}
			wantFinding(t, c, a, channel.FindingSent)
			if len(m.Deliveries()) != 3 || p.count() != 1 {
				t.Errorf("%d mails with %d tokens, want 3 and, for mail server and mailbox together, 1", len(m.Deliveries()), p.count())
			}
		})
	}
}

func TestATokenThatIsRevokedBeforeItsTimeIsRenewedOnTheSpot(t *testing.T) {
	p := startProvider(t)
	p.rotates = true
	m, c := p.with(t, p.endpoint())
	wants(t, c, "one", "delivered")
	revoke := func() { p.set(func() { clear(p.good) }) }
	revoke()
	wants(t, c, "two", "delivered")
	if kept, err := os.ReadFile(p.path("refresh")); err != nil || strings.TrimSpace(string(kept)) != p.refresh {
		t.Errorf("the renewed refresh token is not in its file: %q, %v", kept, err)
	}
	revoke()
	a := attemptOf(t, c, intentOf("two", payload))
	wantFinding(t, c, a, channel.FindingSent)
	if p.count() != 3 || len(m.Deliveries()) != 2 {
		t.Errorf("the endpoint was asked %d times, want 3; %d mails", p.count(), len(m.Deliveries()))
	}
}

func TestManyMailsShareOneRenewal(t *testing.T) {
	p := startProvider(t)
	m, c := p.with(t, p.endpoint())
	var all sync.WaitGroup
	for n := range 8 {
		a := attemptOf(t, c, intentOf(fmt.Sprint(n), payload))
		all.Go(func() {
			if outcome, err := c.Send(t.Context(), a); class(outcome, err) != "delivered" {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p.count() != 1 || len(m.Deliveries()) != 8 {
		t.Errorf("%d mails with %d tokens, want 8 with 1", len(m.Deliveries()), p.count())
	}
}

func TestAnEndpointThatIsDownIsNotSentAndTriedAgain(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter) bool{
		"busy":     func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true },
		"too many": func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusTooManyRequests); return true },
		"a page":   func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("<html>welcome")); return true },
		"no token": func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("{}")); return true },
		"cut":      func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) },
		"elsewhere": func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProvider(t)
			p.answer = answer
			m, c := p.with(t, p.endpoint())
			wants(t, c, "one", "not sent", "auth", "token endpoint")
			if m.Connections() != 0 {
				t.Error("the mail server was connected to without a token")
			}
			p.set(func() { p.answer = nil })
			wants(t, c, "one", "delivered")
		})
	}
	t.Run("gone", func(t *testing.T) {
		p := startProvider(t)
		_, c := p.with(t, p.endpoint())
		p.server.Close()
		wants(t, c, "one", "not sent", "auth", "token endpoint")
	})
}

func TestARefusedGrantPausesTheChannel(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, p *provider)
		words  []string
	}{
		"revoked":       {func(_ *testing.T, p *provider) { p.refresh = "refresh-token-9" }, []string{"invalid_grant"}},
		"wrong secret":  {func(t *testing.T, p *provider) { p.write(t, "secret", "wrong-token") }, []string{"invalid_grant"}},
		"no such file":  {func(_ *testing.T, p *provider) { _ = os.Remove(p.path("refresh")) }, []string{"oauth2.refresh_token_file"}},
		"two words":     {func(t *testing.T, p *provider) { p.write(t, "refresh", "wrong-token wrong-token") }, []string{"oauth2.refresh_token_file", "nothing else"}},
		"unauthorized":  {func(_ *testing.T, p *provider) { p.answer = status(http.StatusUnauthorized) }, []string{"client_secret_file"}},
		"wrong address": {func(_ *testing.T, p *provider) { p.answer = status(http.StatusNotFound) }, []string{"token_url"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := startProvider(t)
			_, c := p.with(t, p.endpoint())
			test.change(t, p)
			wants(t, c, "one", "configuration", test.words...)
		})
	}
}

func status(code int) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool { w.WriteHeader(code); return true }
}

func TestATokenFileIsReadForEachAuthentication(t *testing.T) {
	p := startProvider(t)
	p.write(t, "token", "wrong-token-1\n")
	m, c := p.with(t, map[string]any{"token_file": p.path("token")})
	wants(t, c, "one", "configuration", "auth", "535", "status 401", "https://mail.example.test/")
	a := attemptOf(t, c, intentOf("one", payload))
	var probe error
	if _, probe = c.Probe(t.Context(), a); probe == nil || !strings.Contains(probe.Error(), "status 401") || strings.Contains(probe.Error(), "wrong-token") {
		t.Errorf("a probe with a refused token: %v", probe)
	}
	p.write(t, "token", "access-token-new\n")
	p.set(func() { p.good["access-token-new"] = true })
	wants(t, c, "one", "delivered")
	wantFinding(t, c, a, channel.FindingSent)
	p.write(t, "token", "")
	wants(t, c, "two", "not sent", "oauth2.token_file", "empty")
	_ = os.Remove(p.path("token"))
	wants(t, c, "two", "configuration", "oauth2.token_file")
	if len(m.Deliveries()) != 1 || p.count() != 0 {
		t.Errorf("%d mails, the endpoint was asked %d times", len(m.Deliveries()), p.count())
	}
}

// TestARenewalThatFailsAfterARefusalIsTheEndpointsFault: the refused token may only have been old.
func TestARenewalThatFailsAfterARefusalIsTheEndpointsFault(t *testing.T) {
	p := startProvider(t)
	_, c := p.with(t, p.endpoint())
	wants(t, c, "one", "delivered")
	p.set(func() { clear(p.good); p.answer = status(http.StatusServiceUnavailable) })
	wants(t, c, "two", "not sent", "503")
	p.set(func() { p.answer = nil })
	wants(t, c, "two", "delivered")
}

func TestAServerWithoutTokensIsAFaultOfTheConfiguration(t *testing.T) {
	p := startProvider(t)
	m := box(t, mailbox.Options{})
	c := open(t, boxConfig(t, m, m.SMTPAddr(), map[string]any{"tls": "starttls", "username": "pawl", "oauth2": p.endpoint()}))
	wants(t, c, "one", "configuration", "XOAUTH2", "OAUTHBEARER")
}

// TestATokenThatTheServerEchoesIsHidden: an impolite server writes what it was told into its refusal.
func TestATokenThatTheServerEchoesIsHidden(t *testing.T) {
	const token = "access-token-echo"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startScripted(t, stepAuth, "535 5.7.8 no: "+token+" dXNlcj11c2VyAWF1dGg9QmVhcmVyIGFjY2Vzcy10b2tlbi1lY2hvAQE=")
	s.offers = []string{"AUTH XOAUTH2"}
	c := open(t, s.config(t, map[string]any{"password": nil, "oauth2": map[string]any{"token_file": file}}))
	_, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload)))
	var notSent *channel.NotSentError
	if !errors.As(err, &notSent) || !notSent.Configuration || !strings.Contains(err.Error(), "(hidden) (hidden)") ||
		strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "dXNlcj") {
		t.Errorf("got %v", err)
	}
}
