package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// TestEngineNeverReconcilesWhatItHasInFlight has a send that outlives its fence: to everybody else it is an orphan, to its own engine
// it is work.
func TestEngineNeverReconcilesWhatItHasInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending, release := make(chan struct{}), make(chan struct{})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		close(sending)
		<-release
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "sent"}), nil
	}
	b := newBench(t, w)
	b.ledger = &dueCounter{Ledger: b.ledger}
	due := &b.ledger.(*dueCounter).seen
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	<-sending
	sent, _, err := b.ledger.Intent(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	for before := due.Load(); due.Load() < before+3; { // the fence is dead, and the engine has been told so three times
		time.Sleep(5 * time.Millisecond)
	}
	i, _, err := b.ledger.Intent(t.Context(), k)
	if err != nil || i.FenceNumber != sent.FenceNumber || i.Probes != 0 {
		t.Fatalf("the engine looked at its own send: %s after %s, %d probes, %v", i.Fence(), sent.Fence(), i.Probes, err)
	}
	close(release)
	if i := b.ended(e, k); i.Established != ledger.BySend {
		t.Fatalf("got %s, established by %s", i.Outcome(), i.Established)
	}
	b.wantEffects(k.EffectKey, 1)
}

// dueCounter counts how often a due look was named.
type dueCounter struct {
	ledger.Ledger
	seen atomic.Int64
}

func (d *dueCounter) DueLooks(ctx context.Context, channels []string, limit int) ([]ledger.Key, error) {
	keys, err := d.Ledger.DueLooks(ctx, channels, limit)
	d.seen.Add(int64(len(keys)))
	return keys, err
}

// TestInstanceThatIsStartedUnderAnOldNameFindsItsOrphans has a dead engine whose successor beats under the same name: neither its
// heartbeat nor its name makes the orphan look alive.
func TestInstanceThatIsStartedUnderAnOldNameFindsItsOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	b := newBench(t, w)
	named := func(o *core.Options, _ *core.ChannelOptions) { o.Instance = "pod-0" }
	e := b.engine(named)
	k := b.claimed(e, b.claim("effect"))
	policy := quick()
	r, err := b.ledger.Fence(t.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "pod-0", TTL: policy.FenceTTL}, Channel: "test/one", Limit: 1})
	if err != nil || len(r.Dispatches) != 1 {
		t.Fatalf("fence: %+v, %v", r, err)
	}
	token := channel.Token{Version: 1, Data: []byte("token")}
	if _, err := b.ledger.Move(t.Context(), k, ledger.Stamp{
		Fence: r.Dispatches[0].Intent.Fence(), Token: &token, Sheet: exactSheet, SendTimeout: policy.SendTimeout, CommitBound: policy.CommitBound, Margin: policy.Margin,
	}); err != nil {
		t.Fatal(err)
	}
	w.happen(k.EffectKey) // and dies
	b.start(e)
	if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Established != ledger.ByProbe {
		t.Fatalf("got %s, established by %s", i.Outcome(), i.Established)
	}
	b.wantEffects(k.EffectKey, 1)
}

// TestIntentsThatNothingSettlesDelayNoOther has more of them than one page of looks holds, all older than the one that can be settled.
func TestIntentsThatNothingSettlesDelayNoOther(t *testing.T) {
	t.Parallel()
	const more = 230 // a page has 200
	w := newWorld(exactSheet)
	w.send = func(channel.Attempt, int) (channel.Outcome, error) { return channel.Outcome{}, errors.New("lost") }
	w.probe = func(a channel.Attempt) (channel.Finding, error) {
		if string(a.Intent.Payload) == `{"name":"last"}` {
			return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "found"}), nil
		}
		return channel.UnknownFinding("does not answer"), nil
	}
	b := newBench(t, w)
	e := b.engine(withPolicy(func(p *core.Policy) {
		p.HeldEvery = 10 * time.Millisecond // always due
		if slowness > 1 {
			p.HeldEvery = time.Second // a round of looks takes longer
		}
		p.HeldMax = p.HeldEvery
	}))
	var claims []ledger.Claim
	for n := range more {
		claims = append(claims, b.claim(fmt.Sprint("unknown ", n)))
	}
	if _, err := e.Claim(t.Context(), claims...); err != nil {
		t.Fatal(err)
	}
	b.start(e)
	for _, c := range claims {
		b.until(ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey}, "in doubt", func(i ledger.Intent) bool { return i.Stamped() })
	}
	k := b.claimed(e, b.claim("last"))
	if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Established != ledger.ByProbe {
		t.Fatalf("got %s, established by %s", i.Outcome(), i.Established)
	}
}

// TestTimeLongPastIsDueNow claims what was due an hour ago.
func TestTimeLongPastIsDueNow(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect", func(c *ledger.Claim) { c.DueAt = time.Now().Add(-time.Hour) }))
	if i := b.ended(e, k); i.State != ledger.StateCommitted {
		t.Fatalf("got %s", i.Outcome())
	}
}

// TestFurtherTokenVersionIsStoredBeforeItIsSent has an outside system for which the first token is used up, as a provider's key is
// that answers with the same error for ever.
func TestFurtherTokenVersionIsStoredBeforeItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.token = func(r channel.TokenRequest) (channel.Token, error) {
		return channel.Token{Data: fmt.Appendf(nil, "key-%d", r.Version), ExcludesEarlier: true}, nil
	}
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		if n == 1 {
			return channel.SuccessorWanted("the key answers with an old error"), nil
		}
		if got := string(a.Tokens[len(a.Tokens)-1].Data); got != "key-2" || len(a.Tokens) != 2 {
			return channel.Outcome{}, channel.Rejected("token", fmt.Errorf("sent with %s, %d versions", got, len(a.Tokens)))
		}
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "sent"}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Attempts != 2 {
		t.Fatalf("got %s after %d attempts: %s", i.Outcome(), i.Attempts, i.AbandonReason)
	}
	b.wantEffects(k.EffectKey, 1)
}

// TestIdleEngineAsksNoMoreThanItsPollSays counts what an engine with nothing to do asks of its ledger.
func TestIdleEngineAsksNoMoreThanItsPollSays(t *testing.T) {
	const poll, watched = 50 * time.Millisecond, 600 * time.Millisecond
	b := newBench(t, newWorld(exactSheet))
	asked := &askCounter{Ledger: b.ledger}
	b.ledger = asked
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.PollEvery = poll })
	began := time.Now()
	stop := b.start(e)
	time.Sleep(watched)
	stop()
	most := int64(time.Since(began)/poll) + 2
	if n := asked.fences.Load(); n == 0 || n > most {
		t.Errorf("%d fences in %s, want at most %d", n, time.Since(began), most)
	}
	if n := asked.looks.Load(); n == 0 || n > most {
		t.Errorf("%d looks in %s, want at most %d", n, time.Since(began), most)
	}
}

type askCounter struct {
	ledger.Ledger
	fences, looks atomic.Int64
}

func (a *askCounter) Fence(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	a.fences.Add(1)
	return a.Ledger.Fence(ctx, r)
}

func (a *askCounter) DueLooks(ctx context.Context, channels []string, limit int) ([]ledger.Key, error) {
	if channels[0] != ledger.ChannelLocal { // which the keeper asks for, now and then
		a.looks.Add(1)
	}
	return a.Ledger.DueLooks(ctx, channels, limit)
}

// TestAnAdapterThatIsGoneIsNoAnswer: probes that could not be made count for nothing, however often they fail; the intent is neither held
// nor given up for them.
func TestAnAdapterThatIsGoneIsNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	var asked atomic.Int64
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		return channel.Outcome{}, errors.New("lost")
	}
	w.probe = func(channel.Attempt) (channel.Finding, error) {
		if asked.Add(1) < 8 {
			return channel.Finding{}, fmt.Errorf("the process is gone: %w", channel.ErrNotAsked)
		}
		return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "found"}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	i := b.ended(e, b.claimed(e, b.claim("effect")))
	if i.State != ledger.StateCommitted || i.Probes != 0 || i.Unknowns != 0 {
		t.Fatalf("got %s after %d probes, %d unknown; want committed, with nothing counted before", i.Outcome(), i.Probes, i.Unknowns)
	}
	b.wantEffects(i.EffectKey, 1)
}
