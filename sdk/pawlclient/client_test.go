package pawlclient_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const (
	secret = "pawl_canary-7f3a"
	run    = "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77"
)

// quick retries without waiting long.
var quick = pawlclient.Retry{FirstDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond}

func serve(t *testing.T, h http.HandlerFunc) *pawlclient.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return client(t, pawlclient.Options{URL: s.URL, Token: secret, Retry: quick})
}

func client(t *testing.T, o pawlclient.Options) *pawlclient.Client {
	t.Helper()
	c, err := pawlclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(t *testing.T, w http.ResponseWriter, status int, v any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

func TestNewRefusesWhatWouldFailOrLeakLater(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name string
		o    pawlclient.Options
		want string // empty: no error
	}{
		{"no URL", pawlclient.Options{}, "URL: is missing"},
		{"no URL form", pawlclient.Options{URL: "http://a b/" + secret}, "URL: cannot be read"},
		{"another scheme", pawlclient.Options{URL: "ftp://h"}, "URL: must begin with"},
		{"no host", pawlclient.Options{URL: "http:///v1"}, "URL: names no host"},
		{"a password in the URL", pawlclient.Options{URL: "https://u:" + secret + "@h"}, "URL: holds a user"},
		{"a query", pawlclient.Options{URL: "https://h?token=" + secret}, "URL: must not have a query"},
		{"a token over plain text", pawlclient.Options{URL: "http://pawl.example.org", Token: secret}, "readable to pawl.example.org"},
		{"a token over plain text to an address", pawlclient.Options{URL: "http://192.0.2.7:80", Token: secret}, "use https://"},
		{"a host that only begins like this machine", pawlclient.Options{URL: "http://localhost.example.org", Token: secret}, "readable to"},
		{"plain text allowed", pawlclient.Options{URL: "http://pawl.example.org", Token: secret, AllowPlainText: true}, ""},
		{"plain text without a token", pawlclient.Options{URL: "http://pawl.example.org"}, ""},
		{"plain text to this machine", pawlclient.Options{URL: "http://localhost:1", Token: secret}, ""},
		{"plain text to this machine's address", pawlclient.Options{URL: "http://127.3.2.1:1", Token: secret}, ""},
		{"plain text to this machine's IPv6 address", pawlclient.Options{URL: "http://[::1]:1", Token: secret}, ""},
		{"a token over TLS", pawlclient.Options{URL: "https://pawl.example.org/below/", Token: secret}, ""},
		{"a token of two words", pawlclient.Options{URL: "https://h", Token: secret + " x"}, "Token: holds a character"},
		{"a token with a line end inside", pawlclient.Options{URL: "https://h", Token: secret + "\r\nX: y"}, "Token: holds a character"},
		{"a token and a file", pawlclient.Options{URL: "https://h", Token: secret, TokenFile: "x"}, "TokenFile: there is a Token, too"},
		{"a file that is missing", pawlclient.Options{URL: "https://h", TokenFile: filepath.Join(dir, "none")}, "TokenFile: open"},
		{"an empty file", pawlclient.Options{URL: "https://h", TokenFile: file("empty", "\n")}, "is empty"},
		{"a device without an end", pawlclient.Options{URL: "https://h", TokenFile: "/dev/zero"}, "more than 4096 bytes"},
		{"a huge file", pawlclient.Options{URL: "https://h", TokenFile: file("huge", strings.Repeat(secret, 1000))}, "more than 4096 bytes"},
		{"a file", pawlclient.Options{URL: "https://h", TokenFile: file("good", secret+"\n")}, ""},
		{"a negative time", pawlclient.Options{URL: "https://h", Timeout: -1}, "Timeout: must not be negative"},
		{"negative tries", pawlclient.Options{URL: "https://h", Retry: pawlclient.Retry{Tries: -1}}, "Retry.Tries: must not"},
		{"delays the wrong way round", pawlclient.Options{URL: "https://h", Retry: pawlclient.Retry{FirstDelay: time.Hour}}, "Retry.FirstDelay: is 1h"},
		{"an agent of two lines", pawlclient.Options{URL: "https://h", UserAgent: "a\r\nb"}, "UserAgent: must be one line"},
	}
	for _, tt := range tests {
		_, err := pawlclient.New(tt.o)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: err is %v, want %q", tt.name, err, tt.want)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("%s: the error holds the secret: %v", tt.name, err)
		}
	}
}

func TestNoPrintedFormHoldsTheToken(t *testing.T) {
	o := pawlclient.Options{URL: "https://h", Token: secret}
	c := client(t, o)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", c, "options", o)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "client", c, "options", o)
	for _, text := range []string{c.String(), fmt.Sprint(c, o), fmt.Sprintf("%v %+v %#v %v %+v %#v", c, c, c, o, o, o), log.String()} {
		if strings.Contains(text, secret) || text == "" {
			t.Errorf("the token is in %q", text)
		}
	}
}

// TestEveryMethodCallsItsRoute calls all methods of the interface and looks at what goes over the wire.
func TestEveryMethodCallsItsRoute(t *testing.T) {
	ctx := t.Context()
	k := pawlclient.Key{RunID: run, EffectKey: "mail:a/b:c#2"}
	const key = "/v1/intents/" + run + "/mail:a%2Fb:c%232"
	lease := pawlclient.Lease{RunID: run, Epoch: 1, Number: 2, Owner: "o"}
	tests := map[string]struct {
		call        func(c *pawlclient.Client) (any, error)
		want        string // method and URI
		body, reply string
	}{
		"Claim": {func(c *pawlclient.Client) (any, error) {
			return c.Claim(ctx, pawlclient.Claim{RunID: run, EffectKey: "x:1", Channel: "x", Payload: []byte(`{"a":1.50}`)})
		}, "POST /v1/intents", `{"run_id":"` + run + `","effect_key":"x:1","channel":"x","payload":{"a":1.50}}`, `{"status":"new","intent":{"state":"intent"}}`},
		"ClaimAll": {func(c *pawlclient.Client) (any, error) {
			return c.ClaimAll(ctx, []pawlclient.Claim{{RunID: run, Channel: "x", Payload: []byte("1")}})
		}, "POST /v1/intents/batch", `{"claims":[{"run_id":"` + run + `","channel":"x","payload":1}]}`, `{"results":[{"status":"new"}]}`},
		"Intent": {func(c *pawlclient.Client) (any, error) { return c.Intent(ctx, k, true) }, "GET " + key + "?payload=true", "", `{"intent":{"run_id":"r"}}`},
		"Intents": {func(c *pawlclient.Client) (any, error) {
			return c.Intents(ctx, pawlclient.IntentFilter{RunID: run, Channel: "a/b", State: "intent", Held: true, Limit: 7, After: "x="})
		}, "GET /v1/intents?after=x%3D&channel=a%2Fb&held=true&limit=7&run_id=" + run + "&state=intent", "", `{"intents":[{}],"next":"n"}`},
		"Wait":   {func(c *pawlclient.Client) (any, error) { return c.Wait(ctx, k, 0) }, "GET " + key + "/wait?timeout=0s", "", `{"state":"committed"}`},
		"Cancel": {func(c *pawlclient.Client) (any, error) { return c.Cancel(ctx, k, pawlclient.Cancel{Reason: "r"}) }, "POST " + key + "/cancel", `{"reason":"r"}`, `{"state":"abandoned"}`},
		"Resolve": {func(c *pawlclient.Client) (any, error) {
			return c.Resolve(ctx, k, pawlclient.Resolve{As: "sent", By: "b", Reason: "r", Number: 3})
		}, "POST " + key + "/resolve", `{"as":"sent","by":"b","reason":"r","number":3}`, `{"state":"committed"}`},
		"Redrive": {func(c *pawlclient.Client) (any, error) {
			return c.Redrive(ctx, k, pawlclient.Redrive{By: "b", Reason: "r"})
		}, "POST " + key + "/redrive", `{"by":"b","reason":"r"}`, `{"status":"new"}`},
		"Channels":      {func(c *pawlclient.Client) (any, error) { return c.Channels(ctx) }, "GET /v1/channels", "", `{"channels":[{"name":"a"}]}`},
		"Channel":       {func(c *pawlclient.Client) (any, error) { return c.Channel(ctx, "mail/shop") }, "GET /v1/channels/mail%2Fshop", "", `{"name":"mail/shop"}`},
		"PauseChannel":  {func(c *pawlclient.Client) (any, error) { return c.PauseChannel(ctx, "mail/shop", "b", "r") }, "POST /v1/channels/mail%2Fshop/pause", `{"by":"b","reason":"r"}`, `{"name":"a"}`},
		"ResumeChannel": {func(c *pawlclient.Client) (any, error) { return c.ResumeChannel(ctx, "a", "b") }, "POST /v1/channels/a/resume", `{"by":"b"}`, `{"name":"a"}`},
		"SetFlag":       {func(c *pawlclient.Client) (any, error) { return c.SetFlag(ctx, "a", "b", "off") }, "POST /v1/channels/a/flag", `{"by":"b","flag":"off"}`, `{"name":"a"}`},
		"CreateRun": {func(c *pawlclient.Client) (any, error) {
			r, _, err := c.CreateRun(ctx, pawlclient.NewRun{ID: run})
			return r, err
		}, "POST /v1/runs", `{"id":"` + run + `"}`, `{"id":"r"}`},
		"Run":       {func(c *pawlclient.Client) (any, error) { return c.Run(ctx, run) }, "GET /v1/runs/" + run, "", `{"id":"r"}`},
		"CancelRun": {func(c *pawlclient.Client) (any, error) { return c.CancelRun(ctx, run, pawlclient.Cancel{Reason: "r"}) }, "POST /v1/runs/" + run + "/cancel", `{"reason":"r"}`, `{"id":"r"}`},
		"AcquireLease": {func(c *pawlclient.Client) (any, error) {
			return c.AcquireLease(ctx, run, pawlclient.AcquireLease{Owner: "o", TTL: 1.5})
		}, "POST /v1/runs/" + run + "/lease", `{"owner":"o","ttl_seconds":1.5}`, `{"number":2}`},
		"RenewLease": {func(c *pawlclient.Client) (any, error) {
			return c.RenewLease(ctx, pawlclient.RenewLease{Lease: lease, TTL: 2})
		}, "POST /v1/runs/" + run + "/lease/renew", `{"lease":{"run_id":"` + run + `","epoch":1,"number":2,"owner":"o"},"ttl_seconds":2}`, `{"number":2}`},
		"VerifyLease": {func(c *pawlclient.Client) (any, error) { return nil, c.VerifyLease(ctx, lease) }, "POST /v1/runs/" + run + "/lease/verify", `{"run_id":"` + run + `","epoch":1,"number":2,"owner":"o"}`, ``},
		"ReleaseLease": {func(c *pawlclient.Client) (any, error) {
			return nil, c.ReleaseLease(ctx, pawlclient.ReleaseLease{Lease: lease, To: "ready"})
		}, "POST /v1/runs/" + run + "/lease/release", `{"lease":{"run_id":"` + run + `","epoch":1,"number":2,"owner":"o"},"to":"ready"}`, ``},
		"Receipts": {func(c *pawlclient.Client) (any, error) {
			return c.Receipts(ctx, pawlclient.ReceiptFilter{RunID: run, Limit: 2, After: "a"})
		}, "GET /v1/receipts?after=a&limit=2&run_id=" + run, "", `{"receipts":[{}],"next":"n"}`},
		"Receipt":       {func(c *pawlclient.Client) (any, error) { return c.Receipt(ctx, "i") }, "GET /v1/receipts/i", "", `{"id":"i"}`},
		"VerifyReceipt": {func(c *pawlclient.Client) (any, error) { return c.VerifyReceipt(ctx, []byte(`{"payload":"x"}`)) }, "POST /v1/receipts/verify", `{"payload":"x"}`, `{"ok":true}`},
		"ReceiptKey":    {func(c *pawlclient.Client) (any, error) { return c.ReceiptKey(ctx) }, "GET /v1/receipts/key", "", `{"pem":"p"}`},
		"Stats":         {func(c *pawlclient.Client) (any, error) { return c.Stats(ctx) }, "GET /v1/stats", "", `{"held":1}`},
		"Engines":       {func(c *pawlclient.Client) (any, error) { return c.Engines(ctx) }, "GET /v1/engines", "", `{"engines":[{"host":"h"}]}`},
		"Epochs":        {func(c *pawlclient.Client) (any, error) { return c.Epochs(ctx) }, "GET /v1/epochs", "", `{"epochs":[{"epoch":1}]}`},
		"OpenEpoch": {func(c *pawlclient.Client) (any, error) {
			return c.OpenEpoch(ctx, pawlclient.OpenEpoch{Reason: "r", From: 1, Horizon: 60})
		}, "POST /v1/epochs", `{"reason":"r","from":1,"horizon_seconds":60}`, `{"epoch":2}`},
		"Prune": {func(c *pawlclient.Client) (any, error) {
			return c.Prune(ctx, pawlclient.Prune{OlderThan: 86400, By: "b"})
		}, "POST /v1/prune", `{"older_than_seconds":86400,"by":"b"}`, `{"intents":1}`},
		"APITokens": {func(c *pawlclient.Client) (any, error) { return c.APITokens(ctx) }, "GET /v1/tokens", "", `{"tokens":[{"id":"i"}]}`},
		"CreateAPIToken": {func(c *pawlclient.Client) (any, error) {
			return c.CreateAPIToken(ctx, pawlclient.NewAPIToken{Name: "n", Scopes: []string{"read"}})
		}, "POST /v1/tokens", `{"name":"n","scopes":["read"]}`, `{"id":"i","secret":"s"}`},
		"RevokeAPIToken": {func(c *pawlclient.Client) (any, error) { return c.RevokeAPIToken(ctx, "i", "b c") }, "DELETE /v1/tokens/i?by=b+c", "", `{"id":"i"}`},
		"Audit":          {func(c *pawlclient.Client) (any, error) { return c.Audit(ctx, 5, "a") }, "GET /v1/audit?after=a&limit=5", "", `{"entries":[{"id":"i"}]}`},
	}
	methods := reflect.TypeFor[pawlclient.API]()
	for i := range methods.NumMethod() {
		if _, ok := tests[methods.Method(i).Name]; !ok {
			t.Errorf("%s is not called here", methods.Method(i).Name)
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			calls := 0
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls++
				if got := r.Method + " " + r.RequestURI; got != tt.want {
					t.Errorf("it calls %s, want %s", got, tt.want)
				}
				if got := readAll(t, r); got != tt.body {
					t.Errorf("it sends %s, want %s", got, tt.body)
				}
				if got := r.Header.Get("Authorization"); got != "Bearer "+secret {
					t.Errorf("the authorization is %q", got)
				}
				if got := r.Header.Get("Content-Type"); (tt.body != "") != (got == "application/json") {
					t.Errorf("the content type is %q", got)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, tt.reply)
			})
			got, err := tt.call(c)
			if err != nil || calls != 1 {
				t.Fatalf("%d calls, err %v", calls, err)
			}
			if v := reflect.ValueOf(got); v.IsValid() && v.IsZero() {
				t.Errorf("nothing of the answer was read: %+v", got)
			}
		})
	}
}

func TestWhatIsDoneToEveryIntentHasMoreTimeThanARequest(t *testing.T) {
	const timeout = 50 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		later := time.NewTimer(3 * timeout)
		defer later.Stop()
		select {
		case <-later.C:
			fmt.Fprint(w, `{"intents":1,"epoch":2}`)
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	c, err := pawlclient.New(pawlclient.Options{URL: s.URL, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Prune(t.Context(), pawlclient.Prune{OlderThan: 86400}); err != nil || p.Intents != 1 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	if e, err := c.OpenEpoch(t.Context(), pawlclient.OpenEpoch{Reason: "r", From: 1}); err != nil || e.Epoch != 2 {
		t.Errorf("open an epoch: %+v, %v", e, err)
	}
}
