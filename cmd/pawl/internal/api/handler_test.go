package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func TestWhateverFailsIsAProblem(t *testing.T) {
	w := newWorld(t)
	token := w.token(t, "admin")
	long := strings.Repeat("x", DefaultMaxBody)
	for name, c := range map[string]struct {
		method, path, body string
		change             func(r *http.Request)
		status             int
		code               string
	}{
		"no such path":           {"GET", "/v2", "", nil, 404, "not_found"},
		"root":                   {"GET", "/", "", nil, 404, "not_found"},
		"slash behind":           {"GET", "/v1/stats/", "", nil, 404, "not_found"},
		"two slashes":            {"GET", "/v1//stats", "", nil, 404, "not_found"},
		"dots":                   {"GET", "/v1/x/../stats", "", nil, 404, "not_found"},
		"method":                 {"DELETE", "/v1/stats", "", nil, 405, "invalid"},
		"method nobody has":      {"PATCH", "/v1/intents", `{}`, nil, 405, "invalid"},
		"content type":           {"POST", "/v1/runs", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "invalid"},
		"no content type":        {"POST", "/v1/runs", `{}`, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "invalid"},
		"another charset":        {"POST", "/v1/runs", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }, 415, "invalid"},
		"too large":              {"POST", "/v1/runs", `{"id":"` + long + `"}`, nil, 413, "too_large"},
		"unknown parameter":      {"GET", "/v1/stats?x=1", "", nil, 422, "invalid"},
		"limit":                  {"GET", "/v1/intents?limit=1001", "", nil, 422, "invalid"},
		"cursor":                 {"GET", "/v1/intents?after=nonsense", "", nil, 422, "invalid"},
		"state":                  {"GET", "/v1/intents?state=lost", "", nil, 422, "invalid"},
		"run":                    {"GET", "/v1/runs/7", "", nil, 422, "invalid"},
		"NUL in a key":           {"GET", "/v1/intents/" + newRun() + "/mail:a%00", "", nil, 422, "invalid"},
		"no UTF-8 in a key":      {"GET", "/v1/intents/" + newRun() + "/mail:a%ff", "", nil, 422, "invalid"},
		"no such intent":         {"GET", "/v1/intents/" + newRun() + "/mail:a", "", nil, 404, "not_found"},
		"no such receipt":        {"GET", "/v1/receipts/none", "", nil, 404, "not_found"},
		"no such channel":        {"GET", "/v1/channels/mail", "", nil, 404, "not_found"},
		"no such token":          {"DELETE", "/v1/tokens/" + newRun(), "", nil, 404, "not_found"},
		"lease of another run":   {"POST", "/v1/runs/" + newRun() + "/lease/verify", `{"run_id":"` + newRun() + `","epoch":1,"number":1,"owner":"w"}`, nil, 422, "invalid"},
		"a number past its type": {"POST", "/v1/epochs", `{"reason":"r","from":1e300,"horizon_seconds":1}`, nil, 422, "invalid"},
		"NUL in a reason":        {"POST", "/v1/channels/mail%2Fshop/pause", `{"reason":"a\u0000"}`, nil, 422, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			body := any(c.body)
			if c.body == "" {
				body = nil
			}
			r := w.call(t, token, c.method, c.path, body, func(r *http.Request) {
				if c.change != nil {
					c.change(r)
				}
			})
			if p := r.problem(t); r.status != c.status || p.Code != c.code {
				t.Errorf("status %d %s, want %d %s: %s", r.status, p.Code, c.status, c.code, r.body)
			}
			if r.status == 405 && r.header.Get("Allow") == "" {
				t.Error("it does not say which methods are taken")
			}
			if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("headers %v", r.header)
			}
		})
	}
}

// panicking is a ledger with a mistake in it.
type panicking struct{ ledger.Ledger }

func (panicking) Stats(context.Context) (ledger.Stats, error) { panic("the secret hunter2") }

func TestAPanicIsAProblemAndInTheLogAlone(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, panicking{l})
	r := w.call(t, w.token(t, "read"), "GET", "/v1/stats", nil, func(r *http.Request) { r.Header.Set("X-Request-Id", "call-7") })
	p := r.problem(t)
	if r.status != 500 || p.Code != pawlclient.CodeInternal || !strings.Contains(p.Detail, "call-7") || strings.Contains(r.body, "hunter2") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if log := w.log.text(); !strings.Contains(log, EventRequestPanic) || !strings.Contains(log, "call-7") {
		t.Errorf("log: %s", log)
	}
	if r := w.call(t, w.token(t, "read"), "GET", "/v1/engines", nil); r.status != 200 {
		t.Errorf("the next request: %d", r.status)
	}
}

// failing is a ledger whose errors name what nobody outside should see.
type failing struct{ ledger.Ledger }

func (failing) Stats(context.Context) (ledger.Stats, error) {
	return ledger.Stats{}, fmt.Errorf("connect to db.internal: %w", context.DeadlineExceeded)
}
func (failing) Epochs(context.Context) ([]ledger.EpochRow, error) {
	return nil, fmt.Errorf("column of table internal_7 is missing")
}

func TestWhatWentWrongInsideIsInTheLogAlone(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, failing{l})
	token := w.token(t, "read")
	for path, want := range map[string]int{"/v1/stats": 503, "/v1/epochs": 500} {
		r := w.call(t, token, "GET", path, nil)
		if r.status != want || strings.Contains(r.body, "internal_7") || strings.Contains(r.body, "db.internal") {
			t.Errorf("%s: status %d: %s", path, r.status, r.body)
		}
	}
	if log := w.log.text(); !strings.Contains(log, "internal_7") || !strings.Contains(log, "db.internal") {
		t.Errorf("log: %s", log)
	}
}

func TestNoSecretIsAnsweredOrLogged(t *testing.T) {
	const canary = "canary-4711"
	w := newWorld(t)
	token := w.token(t, "admin")
	run := newRun()
	var all strings.Builder
	for _, r := range []reply{
		w.call(t, canary, "GET", "/v1/stats", nil),
		w.call(t, token, "GET", "/v1/stats?token="+canary, nil),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+run+`","channel":"mail/shop","effect_key":"mail:a","payload":{"to":7,"subject":"`+canary+`"}}`),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+run+`","channel":"mail/shop","effect_key":"mail:a","payload":{"to":"`+canary+`","to":"x"}}`),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+canary+`","channel":"mail/shop","payload":"`+canary+`"}`),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+run+`","channel":"mail/shop","due_at":"`+canary+`","payload":{}}`),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+run+`","channel":"mail/shop","effect_key":"mail:a","payload":{"to":"a@example.org","subject":"`+canary+`"}}`),
		w.call(t, token, "POST", "/v1/intents", `{"run_id":"`+run+`","channel":"mail/shop","effect_key":"mail:a","payload":{"to":"b@example.org","subject":"`+canary+`"}}`),
		w.call(t, token, "GET", "/v1/intents/"+run+"/mail:a", nil),
		w.call(t, token, "POST", "/v1/receipts/verify", `{"payload":"`+canary+`"}`),
	} {
		all.WriteString(r.body)
	}
	if strings.Contains(all.String(), canary) {
		t.Errorf("it is in an answer: %s", all.String())
	}
	if log := w.log.text(); strings.Contains(log, canary) || strings.Contains(log, token) {
		t.Errorf("it is in the log: %s", log)
	}
}

func TestTheLogSaysWhoAskedForWhat(t *testing.T) {
	observed := ""
	w := newWorld(t, func(_ *ServiceOptions, o *HandlerOptions) {
		o.Observe = func(method, route string, status int, took time.Duration) {
			observed = fmt.Sprintf("%s %s %d %t", method, route, status, took > 0)
		}
	})
	issued := w.issue(t, "read")
	run := newRun()
	r := httptest.NewRequest("GET", "/v1/intents/"+run+"/mail:a%2Fb?payload=false", nil)
	r.Header.Set("Authorization", "bearer "+issued.Secret)
	w.handler.ServeHTTP(httptest.NewRecorder(), r)
	for _, want := range []string{EventRequest, "method=GET", "mail:a%2Fb", "status=404", "actor=" + issued.Name, "token_id=" + issued.ID, "remote=192.0.2.1"} {
		if !strings.Contains(w.log.text(), want) {
			t.Errorf("the log lacks %s: %s", want, w.log.text())
		}
	}
	if strings.Contains(w.log.text(), "payload=false") {
		t.Error("the query is in the log")
	}
	if want := "GET /v1/intents/{run_id}/{effect_key} 404 true"; observed != want {
		t.Errorf("observed %q, want %q", observed, want)
	}
}

func TestThePayloadIsShownToOperatorsAlone(t *testing.T) {
	w := newWorld(t)
	key, _ := claimed(t, w, "mail:a")
	path := "/v1/intents/" + key.RunID + "/mail:a"
	for scope, want := range map[string]int{"read": 403, "claim": 403, "operate": 200} {
		r := w.call(t, w.token(t, scope), "GET", path+"?payload=true", nil)
		if r.status != want || (want == 200) != strings.Contains(r.body, "ada@example.org") {
			t.Errorf("%s: status %d: %s", scope, r.status, r.body)
		}
	}
	if r := w.call(t, w.token(t, "operate"), "GET", path, nil); strings.Contains(r.body, "ada@example.org") {
		t.Error("it is shown without being asked for")
	}
}

func TestOptionsThatCannotBeAreNamed(t *testing.T) {
	l, _ := newLedger(t)
	s, err := NewService(ServiceOptions{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]HandlerOptions{
		"Service": {}, "MaxBody": {Service: s, MaxBody: -1}, "Rate": {Service: s, Rate: -1}, "MaxWaits": {Service: s, MaxWaits: -1}, "TokenMemory": {Service: s, TokenMemory: -1},
	} {
		if _, err := NewHandler(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := NewService(ServiceOptions{}); err == nil || !strings.Contains(err.Error(), "Ledger") {
		t.Errorf("Ledger: %v", err)
	}
	if _, err := NewService(ServiceOptions{Ledger: l, ClockAllowance: -1}); err == nil || !strings.Contains(err.Error(), "ClockAllowance") {
		t.Errorf("ClockAllowance: %v", err)
	}
}
