package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// asked counts how often a ledger is asked for a token.
type asked struct {
	ledger.Ledger
	digests, lists atomic.Int64
}

func (a *asked) APITokenByDigest(ctx context.Context, digest string) (ledger.APIToken, error) {
	a.digests.Add(1)
	return a.Ledger.APITokenByDigest(ctx, digest)
}

func (a *asked) APITokens(ctx context.Context) ([]ledger.APIToken, error) {
	a.lists.Add(1)
	return a.Ledger.APITokens(ctx)
}

func TestWithoutAnyTokenOnlyThisMachineIsServed(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   int
	}{
		"localhost":                   {func(*http.Request) {}, 200},
		"by another name":             {func(r *http.Request) { r.Host = "LOCALHOST:80" }, 200},
		"by its address in IPv6":      {func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:9", "[::1]:80" }, 200},
		"its own page":                {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 200},
		"typed into a browser":        {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }, 200},
		"from elsewhere":              {func(r *http.Request) { r.RemoteAddr = "192.0.2.7:9" }, 401},
		"from nowhere":                {func(r *http.Request) { r.RemoteAddr = "" }, 401},
		"through a proxy":             {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.7") }, 401},
		"a name that was rebound":     {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"a name that looks like it":   {func(r *http.Request) { r.Host = "localhost.evil.example" }, 403},
		"no host":                     {func(r *http.Request) { r.Host = "" }, 403},
		"a page from elsewhere":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"a page from a file":          {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"a page from another port":    {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:2") }, 403},
		"a picture in a foreign page": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a token that is not known":   {func(r *http.Request) { r.Header.Set("Authorization", "Bearer pawl_x") }, 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/v1/whoami", nil)
			r.RemoteAddr, r.Host = "127.0.0.1:9", "127.0.0.1:1"
			c.change(r)
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			if rec.Code != c.want {
				t.Errorf("status %d, want %d: %s", rec.Code, c.want, rec.Body)
			}
			if rec.Code == 401 && !strings.Contains(rec.Body.String(), "pawl tokens create") {
				t.Errorf("it does not say what to do: %s", rec.Body)
			}
		})
	}
}

func TestTheFirstTokenEndsTheTimeWithoutTokens(t *testing.T) {
	w := newWorld(t)
	if r := w.call(t, "", "GET", "/v1/audit", nil); r.status != 200 {
		t.Fatalf("before: %d %s", r.status, r.body)
	}
	var issued pawlclient.IssuedAPIToken
	w.call(t, "", "POST", "/v1/tokens", `{"name":"first","scopes":["admin"]}`).into(t, &issued)
	if !strings.HasPrefix(issued.Secret, "pawl_") || len(issued.Secret) != 48 {
		t.Errorf("a secret of %d characters", len(issued.Secret))
	}
	if r := w.call(t, "", "GET", "/v1/audit", nil); r.status != 401 {
		t.Errorf("after, without: %d", r.status)
	}
	if r := w.call(t, issued.Secret, "DELETE", "/v1/tokens/"+issued.ID, nil); r.status != 200 {
		t.Errorf("revoke itself: %d %s", r.status, r.body)
	}
	if r := w.call(t, issued.Secret, "GET", "/v1/audit", nil); r.status != 401 {
		t.Errorf("revoked: %d", r.status)
	}
	if r := w.call(t, "", "GET", "/v1/audit", nil); r.status != 401 {
		t.Errorf("the last token is revoked, and the door is open again: %d", r.status)
	}
	if strings.Contains(w.log.text(), issued.Secret) {
		t.Error("the secret is in the log")
	}
}

func TestATokenCostsAQueryOnceInAWhile(t *testing.T) {
	l, _ := newLedger(t)
	counting := &asked{Ledger: l}
	w := worldOver(t, counting)
	token := w.token(t, "read")
	for range 50 {
		if r := w.call(t, token, "GET", "/v1/whoami", nil); r.status != 200 {
			t.Fatal(r.body)
		}
	}
	if n := counting.digests.Load(); n > 3 { // one, and one more where the machine stood still for seconds
		t.Errorf("50 requests asked %d times for their token", n)
	}
}

func TestARevocationElsewhereCountsWithinTheMemory(t *testing.T) {
	tokens := &fewTokens{list: []ledger.APIToken{{ID: newRun(), Name: "a", Digest: secretDigest("pawl_a"), Scopes: []string{"read"}}}}
	synctest.Test(t, func(t *testing.T) {
		s := &Service{ledger: tokens}
		a := newAccess(s, 3*time.Second)
		if _, err := a.look(t.Context(), secretDigest("pawl_a")); err != nil {
			t.Fatal(err)
		}
		tokens.list[0].RevokedAt = time.Now()
		time.Sleep(2 * time.Second)
		if _, ok := a.recall(secretDigest("pawl_a")); !ok {
			t.Error("it was forgotten early")
		}
		time.Sleep(time.Second)
		if _, ok := a.recall(secretDigest("pawl_a")); ok {
			t.Error("it is remembered too long")
		}
		if _, err := a.look(t.Context(), secretDigest("pawl_a")); err == nil {
			t.Error("a revoked token is good")
		}
	})
}

func TestATokenIsNotRememberedPastItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &fewTokens{list: []ledger.APIToken{{ID: newRun(), Name: "a", Digest: secretDigest("pawl_a"), ExpiresAt: time.Now().Add(time.Second)}}}
		a := newAccess(&Service{ledger: tokens}, 3*time.Second)
		if _, err := a.look(t.Context(), secretDigest("pawl_a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, ok := a.recall(secretDigest("pawl_a")); ok {
			t.Error("it is remembered although it has expired")
		}
		if _, err := a.look(t.Context(), secretDigest("pawl_a")); err == nil {
			t.Error("an expired token is good")
		}
	})
}

// fewTokens is a ledger that only knows tokens.
type fewTokens struct {
	ledger.Ledger
	list []ledger.APIToken
}

func (f *fewTokens) Now(context.Context) (time.Time, error) { return time.Now(), nil }
func (f *fewTokens) APITokenByDigest(_ context.Context, digest string) (ledger.APIToken, error) {
	for _, t := range f.list {
		if t.Digest == digest {
			return t, nil
		}
	}
	return ledger.APIToken{}, ledger.ErrNoAPIToken
}

func TestWhoAsksTooOftenIsToldWhenToComeBack(t *testing.T) {
	w := newWorld(t, func(_ *ServiceOptions, o *HandlerOptions) { o.Rate, o.Burst = 0.01, 3 })
	one, other := w.token(t, "read"), w.token(t, "read")
	var last reply
	for range 4 {
		last = w.call(t, one, "GET", "/v1/whoami", nil)
	}
	p := last.problem(t)
	if last.status != 429 || p.Code != pawlclient.CodeRateLimited || p.RetryAfter < 1 || last.header.Get("Retry-After") != fmt.Sprint(p.RetryAfter) {
		t.Errorf("the fourth: %d, Retry-After %q, %s", last.status, last.header.Get("Retry-After"), last.body)
	}
	if r := w.call(t, other, "GET", "/v1/whoami", nil); r.status != 200 {
		t.Errorf("another token: %d", r.status)
	}
	for range 3 {
		last = w.call(t, "pawl_guess", "GET", "/v1/whoami", nil)
	}
	if last.status != 429 {
		t.Errorf("guesses are not counted: %d", last.status)
	}
}

func TestAnOutageOfTheLedgerIsNoRefusal(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, &broken{Ledger: l, err: context.DeadlineExceeded})
	r := w.call(t, "pawl_x", "GET", "/v1/whoami", nil)
	if p := r.problem(t); r.status != 503 || p.Code != pawlclient.CodeUnavailable || r.header.Get("Retry-After") != "1" {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if r := w.call(t, "", "GET", "/v1/whoami", nil); r.status != 503 {
		t.Errorf("without a token: %d", r.status)
	}
}

// broken is a ledger whose tokens and audit trail cannot be used.
type broken struct {
	ledger.Ledger
	err error
}

func (b *broken) APITokenByDigest(context.Context, string) (ledger.APIToken, error) {
	return ledger.APIToken{}, b.err
}
func (b *broken) APITokens(context.Context) ([]ledger.APIToken, error) { return nil, b.err }
func (b *broken) AppendAudit(context.Context, ledger.AuditEntry) error { return b.err }
