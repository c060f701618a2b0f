package pawlclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func readAll(t *testing.T, r *http.Request) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return string(raw)
}

// A step is what a misbehaving server does with one request.
type step func(w http.ResponseWriter, r *http.Request)

func status(code int, header ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func text(code int, contentType, body string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func good(body string) step { return text(200, "application/json", body) }

// cut ends the connection in the middle of the answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"status":"new","intent":{`)
	panic(http.ErrAbortHandler)
}

// hangUp ends the connection instead of answering.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func steps(t *testing.T, all ...step) (*pawlclient.Client, *atomic.Int32) {
	t.Helper()
	calls := new(atomic.Int32)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1))
		all[min(n, len(all))-1](w, r)
	}), calls
}

func TestWhatIsSafeToRepeatIsRepeatedAndNothingElse(t *testing.T) {
	claim := func(c *pawlclient.Client) error {
		_, err := c.Claim(t.Context(), pawlclient.Claim{RunID: run, Channel: "x", Payload: []byte("1")})
		return err
	}
	stats := func(c *pawlclient.Client) error { _, err := c.Stats(t.Context()); return err }
	pause := func(c *pawlclient.Client) error { _, err := c.PauseChannel(t.Context(), "a", "b", "r"); return err }
	unavailable := text(503, "application/problem+json", `{"title":"The ledger cannot be written now","status":503,"code":"unavailable"}`)
	html := text(502, "text/html", "<html><body>Bad gateway "+secret+"</body></html>")
	type kind int
	const (
		fine kind = iota
		problem
		unclear
		unreachable
	)
	tests := []struct {
		name  string
		do    func(*pawlclient.Client) error
		steps []step
		calls int32
		want  kind
	}{
		{"a claim after 503", claim, []step{unavailable, good(`{"status":"new"}`)}, 2, fine},
		{"a claim whose answer was cut", claim, []step{cut, good(`{"status":"deduplicated"}`)}, 2, fine},
		{"a claim without an answer", claim, []step{hangUp, good(`{"status":"deduplicated"}`)}, 2, fine},
		{"a claim after a proxy's page", claim, []step{html, good(`{"status":"new"}`)}, 2, fine},
		{"a claim, every try in vain", claim, []step{unavailable}, 5, problem},
		{"a claim without an answer, every try", claim, []step{hangUp}, 5, unreachable},
		{"a claim that conflicts", claim, []step{text(409, "application/problem+json", `{"title":"c","code":"key_conflict"}`)}, 1, problem},
		{"a claim that fails inside", claim, []step{status(500)}, 1, problem},
		{"a read after an answer that ends early", stats, []step{good(`{"held":`), good(`{"held":1}`)}, 2, fine},
		{"a read that answers something else", stats, []step{good(`hello`)}, 1, unreachable},
		{"a read that answers a page", stats, []step{text(200, "text/html", "<html>")}, 1, unreachable},
		{"a read after 504", stats, []step{status(504), good(`{}`)}, 2, fine},
		{"an order after 503", pause, []step{unavailable}, 1, unclear},
		{"an order whose answer was cut", pause, []step{cut}, 1, unclear},
		{"an order without an answer", pause, []step{hangUp}, 1, unclear},
		{"an order after a proxy's page", pause, []step{html}, 1, unclear},
		{"an order that fails inside", pause, []step{status(500)}, 1, unclear},
		{"an order turned away at the door", pause, []step{status(429), good(`{}`)}, 2, fine},
		{"an order that is refused", pause, []step{text(409, "application/problem+json", `{"title":"c","code":"refused"}`)}, 1, problem},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, calls := steps(t, tt.steps...)
			err := tt.do(c)
			if calls.Load() != tt.calls {
				t.Errorf("there were %d calls, want %d", calls.Load(), tt.calls)
			}
			var p *pawlclient.Problem
			var u *pawlclient.UnclearError
			got := unreachable
			switch {
			case err == nil:
				got = fine
			case errors.As(err, &u):
				got = unclear
			case errors.As(err, &p):
				got = problem
			}
			if got != tt.want {
				t.Errorf("the kind is %d, want %d: %v", got, tt.want, err)
			}
			if got == unclear && !strings.Contains(err.Error(), "may have been done: look") {
				t.Errorf("the error does not say that it may have been done: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the token is in the error: %v", err)
			}
		})
	}
}

func TestARefusedConnectionIsTriedAgainEvenForAnOrder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, to)
	}}
	c := client(t, pawlclient.Options{URL: "http://" + address, Token: secret, Retry: quick, HTTPClient: &http.Client{Transport: transport}})
	_, err = c.PauseChannel(t.Context(), "a", "b", "r")
	var u *pawlclient.UnclearError
	if err == nil || errors.As(err, &u) || dials != pawlclient.DefaultTries {
		t.Errorf("%d dials, err %v", dials, err)
	}
}

func TestProblemsAreReadWhateverCameBack(t *testing.T) {
	tests := []struct {
		name   string
		step   step
		code   string
		status int
		says   []string
		after  int
	}{
		{"the API's own", text(422, "application/problem+json", `{"title":"Invalid","status":422,"code":"invalid","errors":[{"location":"body.payload.to","message":"is no address"}]}`),
			pawlclient.CodeInvalid, 422, []string{"Invalid", "body.payload.to: is no address"}, 0},
		{"a status in the body that is not the answer's", text(403, "application/problem+json", `{"title":"x","status":200}`), pawlclient.CodeForbidden, 403, []string{"x"}, 0},
		{"a page", text(404, "text/html; charset=utf-8", "<!doctype html><h1>not here</h1>"), pawlclient.CodeNotFound, 404, []string{"Not Found", "a web page"}, 0},
		{"plain text", text(401, "text/plain", "who\nare\tyou, "+secret), pawlclient.CodeUnauthenticated, 401, []string{"Unauthorized: who are you, (hidden)"}, 0},
		{"an echo in a problem", text(400, "application/problem+json", `{"title":"bad token `+secret+`"}`), pawlclient.CodeInvalid, 400, []string{"bad token (hidden)"}, 0},
		{"nothing", status(413), pawlclient.CodeTooLarge, 413, []string{"Request Entity Too Large"}, 0},
		{"an unknown status", status(418), pawlclient.CodeInvalid, 418, []string{"teapot"}, 0},
		{"JSON of something else", text(409, "application/json", `["a"]`), pawlclient.CodeRefused, 409, []string{"Conflict", `["a"]`}, 0},
		{"a long wait is handed on", status(429, "Retry-After", "3600"), pawlclient.CodeRateLimited, 429, nil, 3600},
		{"bytes that are no text", text(404, "text/plain", "\xff\xfe\x00"+strings.Repeat("x", 1000)), pawlclient.CodeNotFound, 404, []string{"…"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, calls := steps(t, tt.step)
			_, err := c.Stats(t.Context())
			var p *pawlclient.Problem
			if !errors.As(err, &p) || calls.Load() != 1 {
				t.Fatalf("err is %v after %d calls", err, calls.Load())
			}
			if p.Code != tt.code || p.Status != tt.status || p.RetryAfter != tt.after {
				t.Errorf("the problem is %+v", p)
			}
			for _, want := range tt.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the token is in %q", err)
			}
		})
	}
}

func TestAKeyConflictBringsTheIntentThatHasTheKey(t *testing.T) {
	c, _ := steps(t, text(409, "application/problem+json", `{"title":"c","code":"key_conflict","intent":{"run_id":"r","effect_key":"x:1","state":"committed"}}`))
	_, err := c.Claim(t.Context(), pawlclient.Claim{RunID: run, Channel: "x", Payload: []byte("1")})
	var p *pawlclient.Problem
	if !errors.As(err, &p) || p.Intent == nil || p.Intent.EffectKey != "x:1" || p.Intent.State != pawlclient.StateCommitted {
		t.Errorf("err is %+v", err)
	}
}

func TestARedirectNeverCarriesTheTokenAnywhere(t *testing.T) {
	for _, code := range []int{301, 302, 307, 308} {
		reached := new(atomic.Int32)
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/stolen?x="+secret, code)
		}))
		// Whatever the caller's own client would do.
		c := client(t, pawlclient.Options{URL: s.URL, Token: secret, Retry: quick, HTTPClient: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return nil },
		}})
		_, err := c.Stats(t.Context())
		_, claimed := c.Claim(t.Context(), pawlclient.Claim{RunID: run, Channel: "x", Payload: []byte("1")})
		for _, err := range []error{err, claimed} {
			if err == nil || !strings.Contains(err.Error(), "points to "+other.URL+", which is not followed") || strings.Contains(err.Error(), secret) {
				t.Errorf("%d: err is %v", code, err)
			}
		}
		if reached.Load() != 0 {
			t.Errorf("%d: the other host was reached", code)
		}
		s.Close()
		other.Close()
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		line := strings.Repeat("x", 1<<16)
		for range 64 {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	c := client(t, pawlclient.Options{URL: s.URL, MaxResponse: 1 << 20, Retry: quick})
	if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("err is %v", err)
	}
}

func TestASlowServerEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	c := client(t, pawlclient.Options{URL: s.URL, Retry: quick})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Stats(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err is %v", err)
	}
	// One try has a bound of its own.
	c = client(t, pawlclient.Options{URL: s.URL, Timeout: 20 * time.Millisecond, Retry: pawlclient.Retry{Tries: 2, FirstDelay: 1, MaxDelay: 1}})
	if _, err := c.Stats(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err is %v", err)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	start := time.Now()
	c, calls := steps(t, status(429, "Retry-After", "1"), good(`{}`))
	if _, err := c.Stats(t.Context()); err != nil || calls.Load() != 2 {
		t.Fatalf("%d calls, err %v", calls.Load(), err)
	}
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("it waited only %s", waited)
	}
	// A context that ends before is not waited for.
	c, calls = steps(t, status(429, "Retry-After", "30"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start = time.Now()
	_, err := c.Stats(ctx)
	var p *pawlclient.Problem
	if !errors.As(err, &p) || p.RetryAfter != 30 || calls.Load() != 1 || time.Since(start) > 5*time.Second {
		t.Errorf("%d calls, err %v after %s", calls.Load(), err, time.Since(start))
	}
}

func TestWaitFollowsTheIntentToItsEnd(t *testing.T) {
	k := pawlclient.Key{RunID: run, EffectKey: "x:1"}
	under := good(`{"run_id":"r","state":"dispatched"}`)
	tests := []struct {
		name    string
		steps   []step
		timeout time.Duration
		want    string
	}{
		{"committed after two looks", []step{under, good(`{"run_id":"r","state":"committed"}`)}, time.Minute, "committed"},
		{"a service that was away", []step{status(503), hangUp, cut, good(`{"run_id":"r","state":"abandoned"}`)}, time.Minute, "abandoned"},
		{"away for longer than one request is tried", append(slices.Repeat([]step{status(503)}, 12), good(`{"run_id":"r","state":"committed"}`)), time.Minute, "committed"},
		{"held", []step{good(`{"run_id":"r","state":"dispatched","held_at":"2026-01-02T03:04:05Z"}`)}, time.Minute, "dispatched"},
		{"not in time", []step{under}, 30 * time.Millisecond, "dispatched"},
		{"not in time, then away", []step{under, status(503)}, 30 * time.Millisecond, "dispatched"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := steps(t, tt.steps...)
			i, err := c.Wait(t.Context(), k, tt.timeout)
			if err != nil || i.State != tt.want {
				t.Errorf("the state is %q, err %v", i.State, err)
			}
		})
	}
	c, calls := steps(t, text(404, "application/problem+json", `{"title":"no","code":"not_found"}`))
	var p *pawlclient.Problem
	if _, err := c.Wait(t.Context(), k, time.Minute); !errors.As(err, &p) || p.Code != pawlclient.CodeNotFound || calls.Load() != 1 {
		t.Errorf("%d calls, err %v", calls.Load(), err)
	}
	c, _ = steps(t, status(503))
	if _, err := c.Wait(t.Context(), k, 20*time.Millisecond); err == nil {
		t.Error("nothing was ever known, and there is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, _ = steps(t, func(w http.ResponseWriter, r *http.Request) { cancel(); under(w, r) })
	if _, err := c.Wait(ctx, k, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("err is %v", err)
	}
}

func TestARunWithoutAnIdIsMadeOnceHoweverOftenItIsTried(t *testing.T) {
	var bodies []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		bodies = append(bodies, readAll(t, r))
		if len(bodies) == 1 {
			panic(http.ErrAbortHandler)
		}
		answer(t, w, http.StatusCreated, map[string]string{"id": run})
	})
	_, created, err := c.CreateRun(t.Context(), pawlclient.NewRun{})
	if err != nil || !created || len(bodies) != 2 || bodies[0] != bodies[1] || len(bodies[0]) != len(fmt.Sprintf(`{"id":"%s"}`, run)) {
		t.Errorf("created %t, err %v, bodies %q", created, err, bodies)
	}
}

func TestAPartOfThePathCannotBeEmptyOrClimb(t *testing.T) {
	c, calls := steps(t, good(`{}`))
	for _, name := range []string{"", ".", ".."} {
		if _, err := c.Channel(t.Context(), name); err == nil {
			t.Errorf("%q is called", name)
		}
	}
	if calls.Load() != 0 {
		t.Error("the server was called")
	}
}
