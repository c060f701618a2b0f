package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// leased creates the bench's run and takes its lease.
func (b *bench) leased(owner string) *fence.Lease {
	b.t.Helper()
	if _, _, err := b.ledger.CreateRun(b.t.Context(), fence.NewRun{ID: b.runID}); err != nil {
		b.t.Fatal(err)
	}
	l, err := b.ledger.Acquire(b.t.Context(), b.runID, fence.AcquireOptions{Owner: owner, TTL: time.Minute})
	if err != nil {
		b.t.Fatal(err)
	}
	return &l
}

func under(l *fence.Lease) func(*ledger.Claim) { return func(c *ledger.Claim) { c.Lease = l } }

// inTime is a context that ends long before the tests do.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), slowness*20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

type done struct {
	core.Outcome
	err error
}

// do calls Do in a goroutine of its own.
func (b *bench) do(ctx context.Context, e *core.Engine, c ledger.Claim) <-chan done {
	answer := make(chan done, 1)
	go func() {
		o, err := e.Do(ctx, c)
		answer <- done{o, err}
	}()
	return answer
}

func TestDoSendsInlineOnceAndThenOnlyTells(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine() // not running
	c := b.claim("effect", under(b.leased("worker")))
	for n, deduplicated := range []bool{false, true, true} {
		o, err := e.Do(inTime(t), c)
		if err != nil || o.Deduplicated != deduplicated || o.Text != "committed" || ledger.EvidenceID(o.Intent.Evidence) != "id-"+c.EffectKey {
			t.Fatalf("call %d: %+v, %v", n+1, o, err)
		}
	}
	b.wantEffects(c.EffectKey, 1)
	if n := b.world.sent(c.EffectKey); n != 1 {
		t.Fatalf("sent %d times", n)
	}
}

// onFence does something right before a fence is taken.
type onFence struct {
	ledger.Ledger
	before func(ledger.FenceRequest)
}

func (f *onFence) Fence(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	f.before(r)
	return f.Ledger.Fence(ctx, r)
}

func TestDoWithoutItsLeaseSendsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	lease := b.leased("worker")
	inner := b.ledger
	lose := func(ledger.FenceRequest) {
		if err := inner.Release(t.Context(), *lease, fence.StatusReady); err != nil {
			t.Error(err)
		}
		if _, err := inner.Acquire(t.Context(), b.runID, fence.AcquireOptions{Owner: "other", TTL: time.Minute}); err != nil {
			t.Error(err)
		}
	}
	// Lost between claim and fence: what was validly claimed stands, and a dispatcher sends it.
	b.ledger = &onFence{inner, lose}
	claimed := b.claim("lost between claim and fence", under(lease))
	o, err := b.engine().Do(inTime(t), claimed)
	if !errors.Is(err, fence.ErrLost) || o.Intent.State != ledger.StateIntent || b.world.sent(claimed.EffectKey) != 0 {
		t.Fatalf("got %s, %v after %d sends; want ErrLost, an intent and none", o.Intent.State, err, b.world.sent(claimed.EffectKey))
	}
	b.ledger = inner
	// Lost before: nothing is claimed.
	late := b.claim("lost before", under(lease))
	if _, err := b.engine().Do(inTime(t), late); !errors.Is(err, fence.ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if _, _, err := inner.Intent(t.Context(), ledger.Key{RunID: late.RunID, EffectKey: late.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		t.Fatalf("claimed without the lease: %v", err)
	}
	e := b.engine()
	b.start(e)
	if i := b.ended(e, ledger.Key{RunID: claimed.RunID, EffectKey: claimed.EffectKey}); i.State != ledger.StateCommitted {
		t.Fatalf("the dispatcher came to %s", i.Outcome())
	}
}

func TestDoWhileADispatcherHasItWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending, release := make(chan struct{}), make(chan struct{})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		close(sending) // a second send panics
		<-release
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "sent"}), nil
	}
	b := newBench(t, w)
	running, other := b.engine(), b.engine()
	b.start(running)
	c := b.claim("effect")
	b.claimed(running, c)
	<-sending
	same, another := b.do(inTime(t), running, c), b.do(inTime(t), other, c)
	close(release)
	for _, answer := range []<-chan done{same, another} {
		if d := <-answer; d.err != nil || !d.Deduplicated || d.Intent.Established != ledger.BySend {
			t.Fatalf("got %+v", d)
		}
	}
	b.wantEffects(c.EffectKey, 1)
}

func TestDoNeverCancelsASendUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending, release := make(chan struct{}), make(chan struct{})
	w.before = func(ctx context.Context, _ channel.Attempt) error {
		close(sending)
		<-release
		return ctx.Err()
	}
	b := newBench(t, w)
	e := b.engine(withPolicy(func(p *core.Policy) { p.SendTimeout, p.FenceTTL = 10*time.Second, 12*time.Second }))
	ctx, cancel := context.WithCancel(inTime(t))
	c := b.claim("effect")
	answer := b.do(ctx, e, c)
	<-sending
	cancel()
	close(release)
	if d := <-answer; d.err != nil || d.Text != "committed" {
		t.Fatalf("got %+v", d)
	}
	b.wantEffects(c.EffectKey, 1)
}

func TestDoTriesAgainWhatWasNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		if n < 3 {
			return channel.Outcome{}, channel.NotSent(errors.New("busy"))
		}
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "sent"}), nil
	}
	b := newBench(t, w)
	c := b.claim("effect")
	if o, err := b.engine().Do(inTime(t), c); err != nil || o.Intent.Attempts != 3 || o.Text != "committed" {
		t.Fatalf("got %+v, %v", o, err)
	}
	b.wantEffects(c.EffectKey, 1)
}

// TestDoWaitsForAChannelThatTakesNothingNow has the two reasons: a person paused it, its adapter is down.
func TestDoWaitsForAChannelThatTakesNothingNow(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	adapter := &mayBeDown{world: w}
	b := newBench(t, w)
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.Channel = adapter })
	pause := func(paused bool) {
		if err := b.ledger.SetPaused(t.Context(), "test/one", paused, "a person"); err != nil {
			t.Fatal(err)
		}
	}
	for name, set := range map[string]func(bool){"paused": pause, "down": adapter.down.Store} {
		set(true)
		c := b.claim(name)
		short, cancel := context.WithTimeout(t.Context(), slowness*100*time.Millisecond)
		o, err := e.Do(short, c)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || o.Text != "in progress" || o.Intent.Starts != 0 {
			t.Fatalf("%s: got %+v, %v; want in progress, no start, and the context's error", name, o, err)
		}
		answer := b.do(inTime(t), e, c)
		set(false)
		if d := <-answer; d.err != nil || d.Text != "committed" {
			t.Fatalf("%s, then not: %+v", name, d)
		}
		b.wantEffects(c.EffectKey, 1)
	}
}

// TestDoSendsOnTheChannelThatTheKeyWasClaimedOn: run and key are the whole identity, and another channel's adapter would take the payload
// for something else.
func TestDoSendsOnTheChannelThatTheKeyWasClaimedOn(t *testing.T) {
	t.Parallel()
	one, two := newWorld(exactSheet), newWorld(exactSheet)
	b := newBench(t, one)
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) {
		o.Channels = []core.ChannelOptions{{Name: "test/two", Channel: two, Policy: quick()}}
	})
	c := b.claim("effect")
	if _, err := core.Claim(t.Context(), b.ledger, c); err != nil {
		t.Fatal(err)
	}
	again := c
	again.Channel = "test/two"
	o, err := e.Do(inTime(t), again)
	if err != nil || !o.Deduplicated || o.Intent.Channel != "test/one" {
		t.Fatalf("got %+v, %v", o, err)
	}
	if one.sent(c.EffectKey) != 1 || two.sent(c.EffectKey) != 0 {
		t.Fatalf("%d sends on the first channel, %d on the second; want 1 and 0", one.sent(c.EffectKey), two.sent(c.EffectKey))
	}
}

func TestWaitReturnsAtAnEndAndAtAHold(t *testing.T) {
	t.Parallel()
	w := newWorld(channel.Sheet{Kind: "test", Begin: true})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		switch string(a.Intent.Payload) {
		case `{"name":"committed"}`:
			return channel.Delivered(channel.Evidence{ID: "id"}), nil
		case `{"name":"abandoned"}`:
			return channel.Outcome{}, channel.Rejected("550", errors.New("no"))
		}
		return channel.Outcome{}, errors.New("lost")
	}
	b := newBench(t, w)
	e := b.engine()
	var keys []ledger.Key
	wants := []string{"committed", "abandoned", "held"}
	for _, name := range wants {
		keys = append(keys, b.claimed(e, b.claim(name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), slowness*300*time.Millisecond)
	defer cancel()
	if i, err := core.Wait(ctx, b.ledger, keys[0]); !errors.Is(err, context.DeadlineExceeded) || i.State != ledger.StateIntent {
		t.Fatalf("nobody sends: %s, %v", i.State, err)
	}
	b.start(e)
	for n, want := range []string{"committed", "abandoned: refused", "held as unknown, do not retry"} {
		if i, err := core.Wait(inTime(t), b.ledger, keys[n]); err != nil || i.Outcome() != want {
			t.Errorf("without the engine: %q, %v; want %q", i.Outcome(), err, want)
		}
		if i, err := e.Wait(inTime(t), keys[n]); err != nil || i.Outcome() != want {
			t.Errorf("through the engine: %q, %v; want %q", i.Outcome(), err, want)
		}
	}
	if _, err := e.Wait(inTime(t), ledger.Key{RunID: b.runID, EffectKey: "test:none"}); !errors.Is(err, ledger.ErrNoIntent) {
		t.Errorf("what was never claimed: %v", err)
	}
}
