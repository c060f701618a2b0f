package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// everyRoute is a request to each route that every scope which is let in may make without harm to the others, and who is let in.
// {…} stands for what setScene made.
var everyRoute = []struct {
	method, path, body string
	scopes             []string // admin may everything; "any": each token; "public": no token needed
	want               int      // for those who are let in
}{
	{"POST", "/v1/intents", `{"run_id":"{run}","channel":"mail/shop","effect_key":"mail:new","payload":{"to":"a@example.org","subject":"s"}}`, []string{"claim"}, 0},
	{"POST", "/v1/intents/batch", `{"claims":[{"run_id":"{run}","channel":"mail/shop","effect_key":"mail:new","payload":{"to":"a@example.org","subject":"s"}}]}`, []string{"claim"}, 0},
	{"GET", "/v1/intents?limit=1", "", []string{"read"}, 200},
	{"GET", "/v1/holds", "", []string{"read"}, 200},
	{"GET", "/v1/intents/{run}/mail:done", "", []string{"claim", "read", "operate"}, 200},
	{"GET", "/v1/intents/{run}/mail:done?payload=true", "", []string{"operate"}, 200},
	{"GET", "/v1/intents/{run}/mail:done/wait?timeout=0s", "", []string{"claim", "read"}, 200},
	{"GET", "/v1/intents/{run}/mail:done/receipts", "", []string{"read"}, 200},
	{"POST", "/v1/intents/{run}/mail:waits-{name}/cancel", `{"reason":"r"}`, []string{"operate"}, 0},
	{"POST", "/v1/intents/{run}/mail:held/resolve", `{"as":"sent","reason":"r","number":99}`, []string{"operate"}, 409},
	{"POST", "/v1/intents/{run}/mail:done/redrive", `{"reason":"r"}`, []string{"operate"}, 409},
	{"GET", "/v1/channels", "", []string{"read"}, 200},
	{"GET", "/v1/channels/mail%2Fshop", "", []string{"read"}, 200},
	{"POST", "/v1/channels/mail%2Fshop/pause", `{"reason":"r"}`, []string{"operate"}, 200},
	{"POST", "/v1/channels/mail%2Fshop/resume", `{}`, []string{"operate"}, 200},
	{"POST", "/v1/channels/mail%2Fshop/flag", `{"flag":"on"}`, []string{"operate"}, 200},
	{"POST", "/v1/runs", `{"idempotency_key":"only"}`, []string{"claim"}, 0},
	{"GET", "/v1/runs/{leased}", "", []string{"claim", "read"}, 200},
	{"POST", "/v1/runs/{free}/cancel", `{"reason":"r"}`, []string{"operate"}, 0},
	{"POST", "/v1/runs/{leased}/lease", `{"owner":"other","ttl_seconds":1}`, []string{"claim"}, 409},
	{"POST", "/v1/runs/{leased}/lease/renew", `{"lease":{lease},"ttl_seconds":600}`, []string{"claim"}, 200},
	{"POST", "/v1/runs/{leased}/lease/verify", `{lease}`, []string{"claim"}, 204},
	{"POST", "/v1/runs/{leased}/lease/release", `{"lease":{lost},"to":"ready"}`, []string{"claim"}, 409},
	{"GET", "/v1/receipts", "", []string{"read"}, 200},
	{"GET", "/v1/receipts/{receipt}", "", []string{"read"}, 200},
	{"GET", "/v1/receipts/key", "", []string{"any"}, 200},
	{"POST", "/v1/receipts/verify", `{"schemaVersion":"x"}`, []string{"read"}, 200},
	{"GET", "/v1/stats", "", []string{"read"}, 200},
	{"GET", "/v1/engines", "", []string{"read"}, 200},
	{"GET", "/v1/epochs", "", []string{"read"}, 200},
	{"POST", "/v1/epochs", `{"reason":"r","from":99,"horizon_seconds":1}`, []string{"admin"}, 409},
	{"POST", "/v1/prune", `{"older_than_seconds":86400,"dry_run":true}`, []string{"admin"}, 200},
	{"GET", "/v1/tokens", "", []string{"admin"}, 200},
	{"POST", "/v1/tokens", `{"name":"{name}","scopes":["read"]}`, []string{"admin"}, 201},
	{"DELETE", "/v1/tokens/{token}", "", []string{"admin"}, 200},
	{"GET", "/v1/audit", "", []string{"admin"}, 200},
	{"GET", "/v1/whoami", "", []string{"any"}, 200},
	{"GET", "/openapi.json", "", []string{"public"}, 200},
	{"GET", "/openapi.yaml", "", []string{"public"}, 200},
	{"GET", "/docs", "", []string{"public"}, 200},
}

// setScene makes what everyRoute asks for, and returns what its placeholders stand for.
func setScene(t *testing.T, w *world) *strings.Replacer {
	t.Helper()
	run, leased, free := newRun(), newRun(), newRun()
	for _, name := range []string{"mail:done", "mail:waits-operate", "mail:waits-admin", "mail:held"} {
		if _, err := w.service.Claim(t.Context(), mailClaim(run, name)); err != nil {
			t.Fatal(err)
		}
	}
	committed(t, w.ledger, ledger.Key{RunID: run, EffectKey: "mail:done"})
	held(t, w.ledger, ledger.Key{RunID: run, EffectKey: "mail:held"})
	for _, id := range []string{leased, free} {
		if _, _, err := w.service.CreateRun(t.Context(), pawlclient.NewRun{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := w.service.AcquireLease(t.Context(), leased, pawlclient.AcquireLease{Owner: "worker", TTL: 600})
	if err != nil {
		t.Fatal(err)
	}
	lease := func(number int64) string {
		return fmt.Sprintf(`{"run_id":%q,"epoch":%d,"number":%d,"owner":"worker"}`, l.RunID, l.Epoch, number)
	}
	receipts, err := w.service.Receipts(t.Context(), pawlclient.ReceiptFilter{RunID: run})
	if err != nil || len(receipts.Receipts) == 0 {
		t.Fatalf("%d receipts, %v", len(receipts.Receipts), err)
	}
	return strings.NewReplacer("{run}", run, "{leased}", leased, "{free}", free, "{lease}", lease(l.Number), "{lost}", lease(l.Number+7),
		"{receipt}", receipts.Receipts[0].ID, "{token}", w.issue(t, "read").ID)
}

func TestEveryRouteLetsInItsScopesAndNobodyElse(t *testing.T) {
	w := newWorld(t)
	scene := setScene(t, w)
	who := map[string]string{"none": "", "wrong": "pawl_" + strings.Repeat("x", 43), "malformed": "not a token"}
	for _, scope := range Scopes() {
		who[scope] = w.token(t, scope)
	}
	revoked := w.issue(t, "admin")
	who["revoked"] = revoked.Secret
	if _, err := w.service.RevokeAPIToken(t.Context(), revoked.ID, "test"); err != nil {
		t.Fatal(err)
	}
	who["expired"] = expired(t, w)
	for _, route := range everyRoute {
		for name, token := range who {
			t.Run(route.method+" "+route.path+" "+name, func(t *testing.T) {
				body := any(nil)
				if route.body != "" {
					body = strings.ReplaceAll(scene.Replace(route.body), "{name}", "n-"+name)
				}
				r := w.call(t, token, route.method, strings.ReplaceAll(scene.Replace(route.path), "{name}", name), body)
				isToken, admin := slices.Contains(Scopes(), name), name == pawlclient.ScopeAdmin
				public, any := slices.Contains(route.scopes, "public"), slices.Contains(route.scopes, "any")
				switch {
				case public || isToken && (any || admin || slices.Contains(route.scopes, name)):
					if route.want != 0 && r.status != route.want || route.want == 0 && r.status/100 != 2 {
						t.Errorf("status %d, want %d: %s", r.status, route.want, r.body)
					}
				case !isToken:
					if p := r.problem(t); r.status != 401 || p.Code != pawlclient.CodeUnauthenticated || r.header.Get("WWW-Authenticate") == "" {
						t.Errorf("status %d, WWW-Authenticate %q: %s", r.status, r.header.Get("WWW-Authenticate"), r.body)
					}
				default:
					if p := r.problem(t); r.status != 403 || p.Code != pawlclient.CodeForbidden || !strings.Contains(p.Detail, route.scopes[0]) {
						t.Errorf("status %d: %s", r.status, r.body)
					}
				}
			})
		}
	}
}

// expired makes a token that was good for a moment.
func expired(t *testing.T, w *world) string {
	t.Helper()
	now, err := w.ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret := "pawl_expired"
	err = w.ledger.PutAPIToken(t.Context(), ledger.APIToken{
		ID: newRun(), Name: "expired", Digest: secretDigest(secret), Scopes: []string{"admin"}, CreatedAt: now.Add(-time.Hour), CreatedBy: "test", ExpiresAt: now.Add(-time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestTheTableOfRoutesIsWhole(t *testing.T) {
	w := newWorld(t)
	covered := map[string]bool{}
	for _, route := range everyRoute {
		path, _, _ := strings.Cut(route.path, "?")
		path = strings.NewReplacer("{run}", newRun(), "{leased}", newRun(), "{free}", newRun(), "{receipt}", "r1", "{token}", newRun(), "{name}", "n").Replace(path)
		u, err := url.Parse("http://localhost" + path)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := w.handler.mux.Handler(&http.Request{Method: route.method, URL: u, Host: "localhost"})
		if pattern == "" {
			t.Errorf("there is no route %s %s", route.method, route.path)
		}
		covered[pattern] = true
	}
	for pattern := range w.handler.routes {
		if !covered[pattern] {
			t.Errorf("the table lacks the route %s", pattern)
		}
	}
}
