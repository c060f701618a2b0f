package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// backends runs a test on both ledgers.
func backends(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) { f(t, newWorld(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, worldOver(t, newPostgres(t))) })
}

func TestAClaimIsCreatedThenDeduplicatedThenAConflict(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		token, c := w.token(t, "claim"), mailClaim(newRun(), "mail:confirm-7")
		var first, again pawlclient.ClaimResult
		r := w.call(t, token, "POST", "/v1/intents", c)
		if r.into(t, &first); r.status != 201 || first.Status != pawlclient.ClaimNew || first.Intent.State != pawlclient.StateIntent {
			t.Fatalf("first: %d %s", r.status, r.body)
		}
		r = w.call(t, token, "POST", "/v1/intents", c)
		if r.into(t, &again); r.status != 200 || again.Status != pawlclient.ClaimDeduplicated || !again.Intent.CreatedAt.Equal(first.Intent.CreatedAt) {
			t.Fatalf("again: %d %s", r.status, r.body)
		}
		c.Payload = json.RawMessage(`{"to":"eve@example.org","subject":"Hello"}`)
		r = w.call(t, token, "POST", "/v1/intents", c)
		p := r.problem(t)
		if r.status != 409 || p.Code != pawlclient.CodeKeyConflict || p.Intent == nil || p.Intent.PayloadDigest != first.Intent.PayloadDigest {
			t.Fatalf("conflict: %d %s", r.status, r.body)
		}
		if len(p.Errors) != 1 || p.Errors[0].Location != "body.effect_key" {
			t.Errorf("conflict names %v", p.Errors)
		}
	})
}

func TestABatchIsTakenWholeOrNotAtAll(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		token, run := w.token(t, "claim", "read"), newRun()
		batch := func(claims ...pawlclient.Claim) reply {
			return w.call(t, token, "POST", "/v1/intents/batch", map[string]any{"claims": claims})
		}
		bad := mailClaim(run, "mail:b")
		bad.Payload = json.RawMessage(`{"to":7,"subject":"s"}`)
		r := batch(mailClaim(run, "mail:a"), bad)
		if p := r.problem(t); r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != "body.claims[1].payload.to" {
			t.Fatalf("a schema that does not fit: %d %s", r.status, r.body)
		}
		if r := w.call(t, token, "GET", "/v1/intents/"+run+"/mail:a", nil); r.status != 404 {
			t.Fatalf("the good one of a refused batch: %d %s", r.status, r.body)
		}
		if r := batch(mailClaim(run, "mail:a"), mailClaim(run, "mail:b")); r.status != 201 {
			t.Fatalf("good: %d %s", r.status, r.body)
		}
		if r := batch(mailClaim(run, "mail:b"), mailClaim(run, "mail:a")); r.status != 200 {
			t.Fatalf("again: %d %s", r.status, r.body)
		}
		other := mailClaim(run, "mail:b")
		other.Payload = json.RawMessage(`{"to":"x@example.org","subject":"s"}`)
		r = batch(mailClaim(run, "mail:c"), other)
		if p := r.problem(t); r.status != 409 || p.Errors[0].Location != "body.claims[1].effect_key" || p.Intent.EffectKey != "mail:b" {
			t.Fatalf("conflict: %d %s", r.status, r.body)
		}
	})
}

func TestOfTheSameClaimFromSixteenClientsOneIsCreated(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		token, c := w.token(t, "claim"), mailClaim(newRun(), "mail:once")
		statuses := make([]int, 16)
		var all sync.WaitGroup
		for n := range statuses {
			all.Go(func() { statuses[n] = w.call(t, token, "POST", "/v1/intents", c).status })
		}
		all.Wait()
		count := map[int]int{}
		for _, s := range statuses {
			count[s]++
		}
		if count[201] != 1 || count[200] != 15 {
			t.Errorf("statuses %v", count)
		}
	})
}

func TestWhatAClaimGetsWrongIsNamed(t *testing.T) {
	w := newWorld(t)
	token, run := w.token(t, "claim"), newRun()
	claim := func(rest string) string { return fmt.Sprintf(`{"run_id":%q,"channel":"mail/shop",%s}`, run, rest) }
	const good = `"payload":{"to":"a@example.org","subject":"s"}`
	for name, c := range map[string]struct {
		body, at string
		status   int
	}{
		"unknown field":            {claim(good + `,"effekt_key":"mail:x"`), "body.effekt_key", 422},
		"field of another case":    {claim(good + `,"Effect_Key":"mail:x"`), "body.Effect_Key", 422},
		"a name twice":             {claim(good + `,"lane":"a","lane":"b"`), "body.lane", 400},
		"a name twice, hidden":     {claim(good + `,"lane":"a","l\u0061ne":"b"`), "body.lane", 400},
		"a name twice in a lease":  {claim(good + `,"lease":{"run_id":"x","run_id":"y"}`), "body.lease.run_id", 400},
		"a name twice in payload":  {claim(`"payload":{"to":"a@example.org","to":"b@example.org","subject":"s"}`), "body.payload.to", 400},
		"a number that is rounded": {claim(`"payload":{"to":"a@example.org","subject":"s","n":12345678901234567890}`), "body.payload.n", 400},
		"no payload":               {claim(`"effect_key":"mail:x"`), "body", 422},
		"payload null":             {claim(`"effect_key":"mail:x","payload":null`), "body.payload", 422},
		"payload against schema":   {claim(`"effect_key":"mail:x","payload":{"to":7,"subject":"s"}`), "body.payload.to", 422},
		"key of another kind":      {claim(good + `,"effect_key":"file:x"`), "body.effect_key", 422},
		"no run":                   {`{"channel":"mail/shop","effect_key":"mail:x",` + good + `}`, "body", 422},
		"run is no UUID":           {`{"run_id":"7","channel":"mail/shop","effect_key":"mail:x",` + good + `}`, "body.run_id", 422},
		"unknown channel":          {`{"run_id":"` + run + `","channel":"mail/other","effect_key":"mail:x",` + good + `}`, "body.channel", 422},
		"built-in channel":         {`{"run_id":"` + run + `","channel":"local","effect_key":"mail:x",` + good + `}`, "body.channel", 422},
		"no key can be made":       {`{"run_id":"` + run + `","channel":"webhook/a","payload":{}}`, "body.effect_key", 422},
		"ends before it is due":    {claim(good + `,"due_at":"2030-01-02T00:00:00Z","expires_at":"2030-01-01T00:00:00Z"`), "body.expires_at", 422},
		"a time of another age":    {claim(good + `,"due_at":"0002-01-01T00:00:00Z"`), "body.due_at", 422},
		"lease of another run":     {claim(good + `,"lease":{"run_id":"` + newRun() + `","epoch":1,"number":1,"owner":"w"}`), "body.lease", 422},
		"NUL in the lane":          {claim(good + `,"lane":"a\u0000b"`), "body.lane", 422},
		"a list":                   {`[]`, "body", 422},
		"cut off":                  {`{"run_id":`, "body.run_id", 400},
		"nothing":                  {``, "body", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.call(t, token, "POST", "/v1/intents", c.body)
			p := r.problem(t)
			if r.status != c.status || p.Code != pawlclient.CodeInvalid || len(p.Errors) == 0 || p.Errors[0].Location != c.at {
				t.Errorf("status %d, want %d at %s: %s", r.status, c.status, c.at, r.body)
			}
		})
	}
}

func TestAKeyThatIsLeftOutIsMadeFromThePayload(t *testing.T) {
	w := newWorld(t)
	c := mailClaim(newRun(), "")
	r, err := w.service.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want, err := PayloadKey(mailChannel, c.Payload)
	if err != nil || r.Intent.EffectKey != want {
		t.Errorf("key %s, want %s, %v", r.Intent.EffectKey, want, err)
	}
}

func TestThePayloadReachesTheLedgerByteForByte(t *testing.T) {
	w := newWorld(t)
	run := newRun()
	payload := "{ \"to\" : \"a\\u0040example.org\",\n\t\"subject\":\"<&\u2028> 1.50e1\", \"n\": 1.50e1 }"
	r := w.call(t, w.token(t, "claim"), "POST", "/v1/intents", fmt.Sprintf(`{"payload":%s,"run_id":%q,"channel":"mail/shop","effect_key":"mail:x"}`, payload, run))
	if r.status != 201 {
		t.Fatal(r.body)
	}
	i, _, err := w.ledger.Intent(t.Context(), ledger.Key{RunID: run, EffectKey: "mail:x"})
	if err != nil || string(i.Payload) != payload {
		t.Errorf("stored %q, want %q, %v", i.Payload, payload, err)
	}
}

func TestAClaimKeepsTheTraceOfItsRequest(t *testing.T) {
	w := newWorld(t)
	run, trace := newRun(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := w.call(t, w.token(t, "claim"), "POST", "/v1/intents", mailClaim(run, "mail:x"), func(r *http.Request) { r.Header.Set("Traceparent", trace) })
	var c pawlclient.ClaimResult
	if r.into(t, &c); c.Intent.TraceParent != trace {
		t.Errorf("trace %q, want %q", c.Intent.TraceParent, trace)
	}
	r = w.call(t, w.token(t, "claim"), "POST", "/v1/intents", mailClaim(run, "mail:y"), func(r *http.Request) { r.Header.Set("Traceparent", "nonsense") })
	var without pawlclient.ClaimResult
	if r.into(t, &without); r.status != 201 || without.Intent.TraceParent != "" {
		t.Errorf("a broken trace: %d %s", r.status, r.body)
	}
}

func TestAClaimUnderALostLeaseIsRefused(t *testing.T) {
	w := newWorld(t)
	ctx, run := t.Context(), newRun()
	if _, _, err := w.service.CreateRun(ctx, pawlclient.NewRun{ID: run}); err != nil {
		t.Fatal(err)
	}
	l, err := w.service.AcquireLease(ctx, run, pawlclient.AcquireLease{Owner: "worker", TTL: 60})
	if err != nil {
		t.Fatal(err)
	}
	c := mailClaim(strings.ToUpper(run), "mail:x")
	c.Lease = &l
	if _, err := w.service.Claim(ctx, c); err != nil {
		t.Fatal(err)
	}
	l.Number++
	c.EffectKey = "mail:y"
	var p *pawlclient.Problem
	if _, err := w.service.Claim(ctx, c); !errors.As(err, &p) || p.Code != pawlclient.CodeLeaseLost {
		t.Errorf("lost: %v", err)
	}
	c.Lease = nil
	if _, err := w.service.Claim(ctx, c); !errors.As(err, &p) || p.Code != pawlclient.CodeInvalid || len(p.Errors) != 1 || p.Errors[0].Location != "body.lease" {
		t.Errorf("without: %v", err)
	}
}

func TestPagesGoThroughAThousandIntents(t *testing.T) {
	w := newWorld(t)
	token, run := w.token(t, "claim", "read"), newRun()
	var claims []pawlclient.Claim
	for n := range 1000 {
		claims = append(claims, mailClaim(run, fmt.Sprintf("mail:%04d", n)))
	}
	if r := w.call(t, token, "POST", "/v1/intents/batch", map[string]any{"claims": claims}); r.status != 201 {
		t.Fatal(r.body)
	}
	seen, after := map[string]bool{}, ""
	for pages := 0; ; pages++ {
		var page pawlclient.IntentPage
		w.call(t, token, "GET", "/v1/intents?limit=150&run_id="+run+"&after="+url.QueryEscape(after), nil).into(t, &page)
		for _, i := range page.Intents {
			if seen[i.EffectKey] {
				t.Fatalf("%s came twice", i.EffectKey)
			}
			seen[i.EffectKey] = true
		}
		if after = page.Next; after == "" {
			break
		}
		if pages > 7 {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d of 1000 came", len(seen))
	}
}
