package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

func named(name string) option {
	return func(o *core.Options, _ *core.ChannelOptions) { o.Instance = name }
}

// TestEnginesThatRaceMakeEachEffectOnce has two engines, each with a ledger handle of its own, on one channel; some sends are not sent at
// first, and some answers get lost.
func TestEnginesThatRaceMakeEachEffectOnce(t *testing.T) {
	t.Parallel()
	const effects = 200 / slowness
	w := newWorld(exactSheet)
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		var number int
		if _, err := fmt.Sscanf(string(a.Intent.Payload), `{"name":"effect %d"}`, &number); err != nil {
			return channel.Outcome{}, channel.Rejected("name", err)
		}
		if number%10 == 0 && n == 1 {
			return channel.Outcome{}, channel.NotSent(errors.New("busy"))
		}
		w.happen(a.Intent.EffectKey)
		if number%25 == 1 && n == 1 {
			return channel.Outcome{}, errors.New("lost")
		}
		return channel.Delivered(channel.Evidence{ID: a.Intent.EffectKey}), nil
	}
	b := newBench(t, w)
	// Not the times that are measured: under load a send must not run into its not-after.
	patient := withPolicy(func(p *core.Policy) { p.SendTimeout, p.FenceTTL = 10*time.Second, 12*time.Second })
	one := b.engine(named("one"), patient)
	first := b.ledger
	b.ledger = b.open()
	two := b.engine(named("two"), patient)
	b.ledger = first
	var claims []ledger.Claim
	for n := range effects {
		claims = append(claims, b.claim(fmt.Sprint("effect ", n)))
	}
	results, err := one.Claim(t.Context(), claims...)
	if err != nil {
		t.Fatal(err)
	}
	b.start(one)
	b.start(two)
	by := map[string]int{}
	for _, r := range results {
		if i := b.ended(one, r.Key); i.State != ledger.StateCommitted {
			t.Fatalf("%s: %s, %s", r.Key, i.Outcome(), i.LastError)
		}
		b.wantEffects(r.Key.EffectKey, 1)
		log, err := b.ledger.Log(t.Context(), r.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range log {
			for _, name := range []string{"one", "two"} {
				if entry.Outcome == ledger.LogFenced && strings.Contains(string(entry.Detail), " by "+name) {
					by[name]++
				}
			}
		}
	}
	if by["one"] == 0 || by["two"] == 0 {
		t.Fatalf("fences by engine: %v; the two did not race", by)
	}
}

// dead has an engine that beat once, fenced the intent for an hour and died; stamped: after the stamp.
func (b *bench) dead(name string, stamp bool) {
	b.t.Helper()
	ctx := b.t.Context()
	if err := b.ledger.Heartbeat(ctx, fence.Instance{ID: name, StartedAt: time.Now()}); err != nil {
		b.t.Fatal(err)
	}
	r, err := b.ledger.Fence(ctx, ledger.FenceRequest{Fence: ledger.Fence{Owner: name, TTL: time.Hour}, Channel: "test/one", Limit: 1})
	if err != nil || len(r.Dispatches) != 1 {
		b.t.Fatalf("fence: %+v, %v", r, err)
	}
	if !stamp {
		return
	}
	i := r.Dispatches[0].Intent
	if _, err := b.ledger.Move(ctx, i.Key, ledger.Stamp{
		Fence: i.Fence(), Token: &channel.Token{Version: 1, Data: []byte(i.EffectKey)}, Sheet: b.world.sheet, SendTimeout: time.Second, CommitBound: time.Second, Margin: time.Second,
	}); err != nil {
		b.t.Fatal(err)
	}
}

// TestMissedHeartbeatsLetOthersLookEarly: an hour of fence is not waited for. What was stamped and may still show is not called absent for
// that.
func TestMissedHeartbeatsLetOthersLookEarly(t *testing.T) {
	impatient := []option{
		func(o *core.Options, _ *core.ChannelOptions) {
			o.HeartbeatEvery, o.HeartbeatTimeout = slowness*20*time.Millisecond, slowness*150*time.Millisecond
		},
		withPolicy(func(p *core.Policy) { p.FenceTTL = 2 * time.Hour }), // as long as what it looks for
	}
	t.Run("never stamped: sent", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, newWorld(exactSheet))
		e := b.engine(impatient...)
		k := b.claimed(e, b.claim("effect"))
		b.dead("gone", false)
		b.start(e)
		if i := b.ended(e, k); i.Established != ledger.BySend {
			t.Fatalf("%s, by %s", i.Outcome(), i.Established)
		}
		b.wantEffects(k.EffectKey, 1)
	})
	t.Run("stamped, and there: found", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, newWorld(exactSheet))
		e := b.engine(impatient...)
		k := b.claimed(e, b.claim("effect"))
		b.dead("gone", true)
		b.world.happen(k.EffectKey)
		b.start(e)
		if i := b.ended(e, k); i.Established != ledger.ByProbe {
			t.Fatalf("%s, by %s", i.Outcome(), i.Established)
		}
		b.wantEffects(k.EffectKey, 1)
	})
	t.Run("stamped, and not there: absent only when it counts", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, newWorld(exactSheet))
		e := b.engine(impatient...)
		k := b.claimed(e, b.claim("effect"))
		b.dead("gone", true)
		b.start(e)
		early := b.until(k, "looked at", func(i ledger.Intent) bool { return i.Probes > 0 })
		if b.world.sent(k.EffectKey) != 0 || !early.Stamped() {
			t.Fatalf("after an early look: %d sends", b.world.sent(k.EffectKey))
		}
		i := b.ended(e, k)
		if sent := i.SendStartedAt; i.Established != ledger.BySend || !sent.After(early.AbsenceCountsFrom(20*time.Millisecond)) {
			t.Fatalf("%s by %s, sent again at %s; an absence counts from %s", i.Outcome(), i.Established, sent, early.AbsenceCountsFrom(20*time.Millisecond))
		}
		b.wantEffects(k.EffectKey, 1)
	})
	t.Run("never seen at all: waits for the fence", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, newWorld(exactSheet))
		e := b.engine(impatient...)
		k := b.claimed(e, b.claim("effect"))
		if _, err := b.ledger.Fence(t.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "unseen", TTL: time.Hour}, Channel: "test/one", Limit: 1}); err != nil {
			t.Fatal(err)
		}
		other := b.claim("other")
		b.start(e)
		b.ended(e, b.claimed(e, other))
		if i, _, err := b.ledger.Intent(t.Context(), k); err != nil || i.FenceOwner != "unseen" {
			t.Fatalf("taken from %q, %v", i.FenceOwner, err)
		}
	})
}

// TestEngineThatIsStoppedHardLeavesWhatOthersSettle cancels sends that are under way: what took effect is found, what did not is sent by
// the next.
func TestEngineThatIsStoppedHardLeavesWhatOthersSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending := make(chan struct{}, 8)
	w.before = func(ctx context.Context, a channel.Attempt) error {
		if string(a.Intent.Payload) == `{"name":"took effect"}` {
			w.happen(a.Intent.EffectKey)
		}
		sending <- struct{}{}
		<-ctx.Done() // the adapter's answer never comes
		return ctx.Err()
	}
	b := newBench(t, w)
	slow := withPolicy(func(p *core.Policy) {
		p.SendTimeout, p.FenceTTL = slowness*600*time.Millisecond, slowness*1200*time.Millisecond
	})
	killed := b.engine(named("killed"), slow, func(o *core.Options, _ *core.ChannelOptions) { o.StopGrace = time.Millisecond })
	there := b.claimed(killed, b.claim("took effect"))
	absent := b.claimed(killed, b.claim("did not"))
	stop := b.start(killed)
	<-sending
	<-sending
	stop()
	w.before = nil
	next := b.engine(named("next"), slow)
	b.start(next)
	for k, how := range map[ledger.Key]ledger.Established{there: ledger.ByProbe, absent: ledger.BySend} {
		if i := b.ended(next, k); i.State != ledger.StateCommitted || i.Established != how {
			t.Errorf("%s: %s by %s, want committed by %s", k.EffectKey, i.Outcome(), i.Established, how)
		}
		b.wantEffects(k.EffectKey, 1)
		b.wantReceipt(k, receipt.Committed)
	}
}

func TestReconcileOnceSettlesWhatIsDueAndSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		return channel.Outcome{}, errors.New("lost")
	}
	b := newBench(t, w)
	e := b.engine()
	c := b.claim("in doubt")
	short, cancel := context.WithTimeout(t.Context(), slowness*500*time.Millisecond)
	defer cancel()
	if o, err := e.Do(short, c); !errors.Is(err, context.DeadlineExceeded) || !o.Intent.Stamped() {
		t.Fatalf("got %+v, %v; want it in doubt", o, err)
	}
	waiting := b.claimed(e, b.claim("waiting"))
	looked, err := e.ReconcileOnce(t.Context())
	if err != nil || looked != 1 {
		t.Fatalf("looked at %d, %v; want the one in doubt", looked, err)
	}
	if i, _, err := b.ledger.Intent(t.Context(), ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey}); err != nil || i.Established != ledger.ByProbe {
		t.Fatalf("%s, %v", i.Outcome(), err)
	}
	if n := w.sent(waiting.EffectKey); n != 0 {
		t.Fatalf("%d sends", n)
	}
	if looked, err := e.ReconcileOnce(t.Context()); err != nil || looked != 0 {
		t.Fatalf("the second time: looked at %d, %v", looked, err)
	}
}

// TestFurtherTokenVersionThatDoesNotExcludeTheFirstIsRefusedInDoubt: two versions could both take effect.
func TestFurtherTokenVersionThatDoesNotExcludeTheFirstIsRefusedInDoubt(t *testing.T) {
	t.Parallel()
	sheet := exactSheet
	sheet.Replay = channel.ReplayForEver
	w := newWorld(sheet)
	w.token = func(r channel.TokenRequest) (channel.Token, error) {
		return channel.Token{Data: fmt.Appendf(nil, "key-%d", r.Version)}, nil
	}
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		if len(a.Tokens) != 1 {
			return channel.Outcome{}, channel.Rejected("token", fmt.Errorf("%d versions", len(a.Tokens)))
		}
		switch n {
		case 1:
			return channel.Outcome{}, errors.New("lost")
		case 2:
			return channel.SuccessorWanted("looks stuck"), nil
		}
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "id"}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Attempts != 3 {
		t.Fatalf("%s after %d attempts: %s", i.Outcome(), i.Attempts, i.LastError)
	}
	if _, tokens, err := b.ledger.Intent(t.Context(), k); err != nil || len(tokens) != 1 {
		t.Fatalf("%d token versions, %v", len(tokens), err)
	}
}
