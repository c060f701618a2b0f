package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// failing is a ledger whose moves fail while it is down.
type failing struct {
	ledger.Ledger
	down  atomic.Bool
	tried atomic.Int64
}

func (f *failing) Move(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	if f.down.Load() {
		f.tried.Add(1)
		return ledger.Result{}, errors.New("connection refused")
	}
	return f.Ledger.Move(ctx, k, m)
}

// TestEvidenceWaitsForALedgerThatIsDown: what was learnt is written when the ledger is back, and nothing is sent meanwhile.
func TestEvidenceWaitsForALedgerThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	b := newBench(t, w)
	f := &failing{Ledger: b.ledger}
	b.ledger = f
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		f.down.Store(true)
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: a.Intent.EffectKey}), nil
	}
	e := b.engine(withPolicy(func(p *core.Policy) { p.Concurrency = 1 }))
	k := b.claimed(e, b.claim("first"))
	waiting := b.claimed(e, b.claim("second"))
	b.start(e)
	for f.tried.Load() < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	if n := w.sent(k.EffectKey) + w.sent(waiting.EffectKey); n != 1 {
		t.Fatalf("%d sends while the ledger was down, want the one before", n)
	}
	w.mu.Lock()
	w.send = nil
	w.mu.Unlock()
	f.down.Store(false)
	b.ended(e, k)
	b.ended(e, waiting)
	b.wantEffects(k.EffectKey, 1)
	b.wantEffects(waiting.EffectKey, 1)
}

// TestStampWithoutAnswerIsNeverSent: a stamp whose commit got lost on the way back sends nothing, and loses nothing.
func TestStampWithoutAnswerIsNeverSent(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	b := newBench(t, w)
	b.ledger = &cutStamps{Ledger: b.ledger, left: 2}
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Attempts != 3 {
		t.Fatalf("got %s after %d attempts, want committed after 3", i.Outcome(), i.Attempts)
	}
	if n := w.sent(k.EffectKey); n != 1 {
		t.Fatalf("sent %d times, want once", n)
	}
}

type cutStamps struct {
	ledger.Ledger
	left int
}

func (c *cutStamps) Move(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	r, err := c.Ledger.Move(ctx, k, m)
	if _, ok := m.(ledger.Stamp); ok && c.left > 0 && err == nil {
		c.left--
		return ledger.Result{}, errors.New("connection reset by peer")
	}
	return r, err
}
