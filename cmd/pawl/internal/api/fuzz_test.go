package api

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// seeds are bodies to begin with; {run} is a run that exists.
var seeds = []string{
	`{}`, `[]`, `null`, `0`, `""`, `{`, `{"a":`, "\xff", "\u0000", `{"":1}`, `{"claims":null}`, `{"claims":[null]}`, `{"claims":[[]]}`, `{"claims":{}}`,
	`{"run_id":"{run}","channel":"mail/shop","effect_key":"mail:x","payload":{"to":"a@example.org","subject":"s"}}`,
	`{"run_id":"{run}","channel":"file/log","payload":{"line":"\u0000\ud800","n":1e400}}`,
	`{"run_id":"{run}","channel":"file/log","payload":null,"approval":{"by":"a","reference":"b","until":"9999-12-31T23:59:59+14:00","digest":"c","count":-1}}`,
	`{"run_id":"{run}","channel":"file/log","effect_key":"file:a","payload":1,"due_at":"2026-02-30T00:00:00Z","expires_at":"2262-01-01T00:00:00Z"}`,
	`{"run_id":"{run}","channel":"file/log","effect_key":"file:b","payload":1,"lane":"l","lease":{"run_id":"{run}","epoch":-1,"number":9223372036854775807,"owner":"o"}}`,
	`{"claims":[{"run_id":"{run}","channel":"mail/shop","effect_key":"mail:y","payload":{"to":"a@example.org","subject":"s"}},{"run_id":"{run}","channel":"mail/shop","effect_key":"mail:y","payload":{"to":"b","subject":"s"}}]}`,
	`{"reason":"r","by":"b"}`, `{"as":"sent","reason":"r","number":1}`, `{"as":"retry","reason":"r","number":1e18}`,
	`{"reason":"r","accept_duplicates":"duplicates are acceptable","approval":null}`,
	`{"flag":"on"}`, `{"id":"{run}","idempotency_key":"k"}`, `{"owner":"o","ttl_seconds":0.1,"reclaim_ceiling":1}`, `{"owner":"o","ttl_seconds":1e308}`,
	`{"lease":{"run_id":"{run}","epoch":1,"number":1,"owner":"o"},"ttl_seconds":1}`, `{"lease":{"run_id":"{run}","epoch":1,"number":1,"owner":"o"},"to":"ready"}`,
	`{"run_id":"{run}","epoch":1,"number":1,"owner":"o"}`, `{"payloadType":"x","payload":"e30=","signatures":[{"keyid":"k","sig":"AA=="}]}`,
	`{"reason":"r","from":1,"horizon_seconds":1e12}`, `{"older_than_seconds":86400}`, `{"older_than_seconds":1e300,"dry_run":true}`, `{"name":"n","scopes":["read","read"]}`,
}

// writes are the routes that take a body.
var writes = []string{
	"/v1/intents", "/v1/intents/batch", "/v1/intents/{run}/mail:a/cancel", "/v1/intents/{run}/mail:a/resolve", "/v1/intents/{run}/mail:a/redrive",
	"/v1/channels/mail%2Fshop/pause", "/v1/channels/mail%2Fshop/resume", "/v1/channels/mail%2Fshop/flag", "/v1/runs", "/v1/runs/{run}/cancel", "/v1/runs/{run}/lease",
	"/v1/runs/{run}/lease/renew", "/v1/runs/{run}/lease/verify", "/v1/runs/{run}/lease/release", "/v1/receipts/verify", "/v1/epochs", "/v1/prune", "/v1/tokens",
}

func TestTheFuzzedRoutesAreAllThatTakeABody(t *testing.T) {
	w := newWorld(t)
	takes := 0
	for _, r := range w.handler.routes {
		if takesBody(r.method) {
			takes++
		}
	}
	if takes != len(writes) {
		t.Errorf("%d routes take a body, %d are fuzzed", takes, len(writes))
	}
}

// fuzzed is a world with an intent and a run to write to.
type fuzzed struct {
	*world
	token string
	run   *strings.Replacer
}

func newFuzzed(t testing.TB, w *world) *fuzzed {
	t.Helper()
	run := newRun()
	if _, err := w.service.Claim(t.Context(), mailClaim(run, "mail:a")); err != nil {
		t.Fatal(err)
	}
	return &fuzzed{w, w.token(t, "admin"), strings.NewReplacer("{run}", run)}
}

// post sends a body to a route, and fails if the answer is no answer.
func (f *fuzzed) post(t testing.TB, route int, body string) {
	path := f.run.Replace(writes[route%len(writes)])
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+f.token)
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code >= 500 || w.Code < 200 || w.Code/100 == 3 {
		t.Fatalf("status %d to %s with %q: %s\n%s", w.Code, path, body, w.Body, tail(f.log.text()))
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func FuzzBodies(f *testing.F) {
	for route := range writes {
		for _, body := range seeds {
			f.Add(route, body)
		}
	}
	world := newFuzzed(f, newWorld(f))
	f.Fuzz(func(t *testing.T, route int, body string) {
		if route < 0 {
			route = -(route + 1)
		}
		world.post(t, route, world.run.Replace(body))
	})
}

func TestTwoThousandMutilatedBodiesNeverFailInside(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		f := newFuzzed(t, w)
		r := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // the same bodies in every run
		for n := range 2000 {
			f.post(t, n, mutilated(r, f.run.Replace(seeds[r.IntN(len(seeds))])))
		}
		for route := range writes {
			for _, seed := range seeds {
				f.post(t, route, f.run.Replace(seed))
			}
		}
	})
}

// mutilated is a body with a few things wrong with it.
func mutilated(r *rand.Rand, body string) string {
	pieces := []string{`"`, `{`, `}`, `[`, `]`, `,`, `:`, `null`, `-1`, `1e309`, `0.1`, `"\u0000"`, `"\ud800"`, "\xc3", `true`, `9223372036854775808`, `"payload"`, `"claims"`, `é`}
	for range 1 + r.IntN(3) {
		at := r.IntN(len(body) + 1)
		end := min(len(body), at+r.IntN(4))
		switch r.IntN(4) {
		case 0:
			body = body[:at] + body[end:]
		case 1:
			body = body[:at] + pieces[r.IntN(len(pieces))] + body[end:]
		case 2:
			other := seeds[r.IntN(len(seeds))]
			body = body[:at] + other + body[end:]
		case 3:
			body = strings.Replace(body, `"r"`, fmt.Sprintf("%q", strings.Repeat("long ", r.IntN(600))), 1)
		}
	}
	return body
}
