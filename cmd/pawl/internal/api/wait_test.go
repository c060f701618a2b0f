package api

import (
	"context"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// awaiting tells when a wait has begun, and ends it when it is told.
type awaiting struct {
	began, settle chan struct{}
}

func newAwaiting() *awaiting { return &awaiting{make(chan struct{}, 16), make(chan struct{})} }

func (a *awaiting) await(l ledger.Reader) func(context.Context, ledger.Key) (ledger.Intent, error) {
	return func(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
		a.began <- struct{}{}
		select {
		case <-a.settle:
			return core.Wait(ctx, l, k)
		case <-ctx.Done():
			return ledger.Intent{}, ctx.Err()
		}
	}
}

func waitingWorld(t *testing.T, change func(*HandlerOptions)) (*world, *awaiting) {
	l, _ := newLedger(t)
	a := newAwaiting()
	return worldOver(t, l, func(s *ServiceOptions, h *HandlerOptions) {
		s.Await = a.await(l)
		change(h)
	}), a
}

func TestAWaitAnswersAtOnceWhenTheIntentIsCommitted(t *testing.T) {
	w, a := waitingWorld(t, func(*HandlerOptions) {})
	key, _ := claimed(t, w, "mail:a")
	token := w.token(t, "claim")
	answer := make(chan reply)
	go func() { answer <- w.call(t, token, "GET", "/v1/intents/"+key.RunID+"/mail:a/wait?timeout=60s", nil) }()
	<-a.began
	committed(t, w.ledger, key)
	began := time.Now()
	close(a.settle)
	r := <-answer
	var i pawlclient.Intent
	if r.into(t, &i); r.status != 200 || i.State != pawlclient.StateCommitted {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAWaitEndsWithWhatIsKnown(t *testing.T) {
	w, _ := waitingWorld(t, func(*HandlerOptions) {})
	key, _ := claimed(t, w, "mail:a")
	token := w.token(t, "claim")
	for query, want := range map[string]int{"?timeout=50ms": 200, "?timeout=0s": 200, "?timeout=61s": 422, "?timeout=-1s": 422, "?timeout=soon": 422, "?until=1s": 422} {
		r := w.call(t, token, "GET", "/v1/intents/"+key.RunID+"/mail:a/wait"+query, nil)
		if r.status != want {
			t.Errorf("%s: status %d, want %d: %s", query, r.status, want, r.body)
		}
	}
	if r := w.call(t, token, "GET", "/v1/intents/"+newRun()+"/mail:a/wait?timeout=1s", nil); r.status != 404 {
		t.Errorf("no such intent: %d", r.status)
	}
}

func TestAServiceThatStopsEndsItsWaits(t *testing.T) {
	stop := make(chan struct{})
	w, a := waitingWorld(t, func(h *HandlerOptions) { h.Stopping = stop })
	key, _ := claimed(t, w, "mail:a")
	token := w.token(t, "claim")
	answer := make(chan reply)
	go func() { answer <- w.call(t, token, "GET", "/v1/intents/"+key.RunID+"/mail:a/wait?timeout=60s", nil) }()
	<-a.began
	close(stop)
	r := <-answer
	var i pawlclient.Intent
	if r.into(t, &i); r.status != 200 || i.State != pawlclient.StateIntent {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

func TestSoManyWaitAtOnceAndNoMore(t *testing.T) {
	w, a := waitingWorld(t, func(h *HandlerOptions) { h.MaxWaits = 1 })
	key, _ := claimed(t, w, "mail:a")
	token := w.token(t, "claim")
	path := "/v1/intents/" + key.RunID + "/mail:a/wait?timeout=60s"
	answer := make(chan reply)
	go func() { answer <- w.call(t, token, "GET", path, nil) }()
	<-a.began
	r := w.call(t, token, "GET", path, nil)
	if p := r.problem(t); r.status != 429 || p.RetryAfter != 1 {
		t.Errorf("the second: %d %s", r.status, r.body)
	}
	committed(t, w.ledger, key)
	close(a.settle)
	if r := <-answer; r.status != 200 {
		t.Errorf("the first: %d %s", r.status, r.body)
	}
	if r := w.call(t, token, "GET", path, nil); r.status != 200 {
		t.Errorf("after it: %d %s", r.status, r.body)
	}
}
