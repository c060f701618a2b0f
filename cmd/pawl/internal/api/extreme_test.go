package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func TestTimesThatCannotBeShownAgainAreRefused(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		secret := w.token(t, pawlclient.ScopeAdmin)
		run := uuid.NewString()
		claim := func(field, at string) string {
			return `{"run_id":"` + run + `","effect_key":"mail:` + field + at[len(at)-6:] + `","channel":"mail/shop","payload":{"to":"a@example.org","subject":"s"},"` + field + `":"` + at + `"}`
		}
		for _, at := range []string{"9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.9999999Z", "1970-01-01T00:00:00+10:00", "0001-01-01T00:00:00+10:00"} {
			for _, field := range []string{"due_at", "expires_at"} {
				r := w.call(t, secret, http.MethodPost, "/v1/intents", claim(field, at))
				if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "body."+field) {
					t.Errorf("%s %s: %d %s", field, at, r.status, r.body)
				}
			}
			r := w.call(t, secret, http.MethodPost, "/v1/tokens", `{"name":"late","scopes":["read"],"expires_at":"`+at+`"}`)
			if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "body.expires_at") {
				t.Errorf("a token until %s: %d %s", at, r.status, r.body)
			}
		}
		for _, path := range []string{"/v1/intents", "/v1/tokens"} {
			if r := w.call(t, secret, http.MethodGet, path, nil); r.status != http.StatusOK {
				t.Errorf("%s after it: %d %s", path, r.status, r.body)
			}
		}
	})
}

func TestBodiesInMemoryAtOnceAreBounded(t *testing.T) {
	const most = 64 << 10
	w := newWorld(t, func(_ *ServiceOptions, h *HandlerOptions) { h.MaxClaimBody, h.MaxBody, h.MaxBodies = most, 1<<10, most })
	secret := w.token(t, pawlclient.ScopeClaim)
	send, body := io.Pipe()
	answered := make(chan reply, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/v1/intents", send)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+secret)
		answered <- do(t, r)
	}()
	large := mailClaim(newRun(), "mail:large")
	large.Payload = json.RawMessage(`{"to":"ada@example.org","subject":"` + strings.Repeat("x", most-1000) + `"}`)
	raw, err := json.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := body.Write(raw[:len(raw)-1]); err != nil { // its end is to come
		t.Fatal(err)
	}
	for w.handler.intake.held.Load() < int64(len(raw)-1) {
		runtime.Gosched()
	}
	small := mailClaim(newRun(), "mail:small")
	small.Payload = json.RawMessage(`{"to":"ada@example.org","subject":"` + strings.Repeat("x", 2000) + `"}`)
	r := w.call(t, secret, http.MethodPost, "/v1/intents", small)
	if p := r.problem(t); r.status != http.StatusTooManyRequests || p.Code != pawlclient.CodeRateLimited || r.header.Get("Retry-After") == "" {
		t.Errorf("while the large one is held: %d %s", r.status, r.body)
	}
	if _, err := body.Write(raw[len(raw)-1:]); err != nil {
		t.Fatal(err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-answered; r.status != http.StatusCreated {
		t.Errorf("the large one: %d %s", r.status, r.body)
	}
	if r := w.call(t, secret, http.MethodPost, "/v1/intents", small); r.status != http.StatusCreated {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	w.server.Close() // waits for the handlers
	if n := w.handler.intake.held.Load(); n != 0 {
		t.Errorf("%d bytes are held when nothing is under way", n)
	}
}

func TestWhoPrunesIsInTheAuditTrail(t *testing.T) {
	w := newWorld(t)
	admin := w.issue(t, pawlclient.ScopeAdmin)
	for body, by := range map[string]string{
		`{"older_than_seconds":86400}`:                 admin.Name,
		`{"older_than_seconds":86400,"by":"a person"}`: "a person",
	} {
		if r := w.call(t, admin.Secret, http.MethodPost, "/v1/prune", body); r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, r.status, r.body)
		}
		page, err := w.service.Audit(t.Context(), 1, "")
		if err != nil {
			t.Fatal(err)
		}
		last := page.Entries[0]
		var detail struct{ By string }
		if err := json.Unmarshal(last.Detail, &detail); err != nil || last.Action != "ledger.prune" || last.Result != auditDone ||
			last.Actor != admin.Name || detail.By != by {
			t.Errorf("%s: %+v %s %v", body, last, last.Detail, err)
		}
	}
}

// pagedLedger has five pages to prune, and one place where the next page is, as the ledgers have.
type pagedLedger struct {
	ledger.Ledger
	mu   sync.Mutex
	next int
}

func (l *pagedLedger) Prune(context.Context, time.Duration, int, bool) (ledger.Pruned, error) {
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = (l.next + 1) % 5
	return ledger.Pruned{Intents: 1, Done: l.next == 0}, nil
}

func TestPrunesThatAreAskedForAtOnceEachCountAll(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, &pagedLedger{Ledger: l})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			p, err := w.service.Prune(t.Context(), pawlclient.Prune{OlderThan: 86400, DryRun: true})
			if err != nil || p.Intents != 5 {
				t.Errorf("counts %+v, %v; want all 5", p, err)
			}
		})
	}
	group.Wait()
}
