package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// TestOutcomesOfASend is the table of what a send may answer, and what the intent comes to.
func TestOutcomesOfASend(t *testing.T) {
	t.Parallel()
	deliver := func(w *world, a channel.Attempt) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "id"}), nil
	}
	replay := channel.Sheet{Kind: "test", Replay: channel.ReplayForEver, Begin: true}
	blind := channel.Sheet{Kind: "test", Begin: true}
	tests := map[string]struct {
		sheet   channel.Sheet
		policy  func(*core.Policy)
		send    func(w *world, a channel.Attempt, n int) (channel.Outcome, error)
		state   ledger.State
		as      ledger.AbandonedAs
		held    bool
		how     ledger.Established
		effects int
		sends   int
	}{
		"delivered": {sheet: exactSheet, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) { return deliver(w, a) },
			state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 1},
		"not sent, then delivered": {sheet: blind, send: func(w *world, a channel.Attempt, n int) (channel.Outcome, error) {
			if n < 3 {
				return channel.Outcome{}, channel.NotSent(errors.New("busy"))
			}
			return deliver(w, a)
		}, state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 3},
		"rejected": {sheet: blind, send: func(*world, channel.Attempt, int) (channel.Outcome, error) {
			return channel.Outcome{}, channel.Rejected("550", errors.New("no such user"))
		}, state: ledger.StateAbandoned, as: ledger.Refused, effects: 0, sends: 1},
		"ambiguous, took effect: found by the probe": {sheet: exactSheet, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Outcome{}, channel.Ambiguous("reply", errors.New("connection reset"))
		}, state: ledger.StateCommitted, how: ledger.ByProbe, effects: 1, sends: 1},
		"ambiguous, did not: proven absent, sent again": {sheet: exactSheet, send: func(w *world, a channel.Attempt, n int) (channel.Outcome, error) {
			if n == 1 {
				return channel.Outcome{}, channel.Ambiguous("reply", errors.New("connection reset"))
			}
			return deliver(w, a)
		}, state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 2},
		"an error of no known type is ambiguous": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Outcome{}, errors.New("500 internal server error")
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 1},
		"a deadline is ambiguous, never a failure": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Outcome{}, context.DeadlineExceeded
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 1},
		"a panic is ambiguous": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			panic("nil map")
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 1},
		"the zero outcome is ambiguous": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Outcome{}, nil
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 1},
		"accepted, where the sheet has no such answer, is ambiguous": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Accepted(channel.Evidence{ID: "id"}, 0), nil
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 1},
		"policy abandon: at most once": {sheet: blind, policy: func(p *core.Policy) { p.Unknown = core.UnknownAbandon }, send: func(*world, channel.Attempt, int) (channel.Outcome, error) {
			return channel.Outcome{}, errors.New("lost")
		}, state: ledger.StateAbandoned, as: ledger.Unknown, effects: 0, sends: 1},
		"policy resend: at least once": {sheet: blind, policy: func(p *core.Policy) {
			p.Unknown, p.AcceptDuplicates = core.UnknownResend, core.DuplicatesAcceptable
		}, send: func(w *world, a channel.Attempt, n int) (channel.Outcome, error) {
			if n == 1 {
				return channel.Outcome{}, errors.New("lost")
			}
			return deliver(w, a)
		}, state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 2},
		"replay-safe: the same bytes go again": {sheet: replay, send: func(w *world, a channel.Attempt, n int) (channel.Outcome, error) {
			if n == 1 {
				return channel.Outcome{}, errors.New("lost")
			}
			return deliver(w, a)
		}, state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 2},
		"refused now, in doubt about before: not called refused": {sheet: replay, policy: func(p *core.Policy) { p.AttemptCeiling = 3 }, send: func(w *world, a channel.Attempt, n int) (channel.Outcome, error) {
			if n == 1 {
				w.happen(a.Intent.EffectKey)
				return channel.Outcome{}, errors.New("lost")
			}
			return channel.Outcome{}, channel.Rejected("409", errors.New("closed"))
		}, state: ledger.StateDispatched, held: true, effects: 1, sends: 3},
		"failed outside: evidence of failure": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.FailedOutside(channel.Evidence{ID: "0xdead"}, "reverted"), nil
		}, state: ledger.StateAbandoned, as: ledger.FailedOutside, effects: 1, sends: 1},
		"no evidence id stays none": {sheet: blind, send: func(w *world, a channel.Attempt, _ int) (channel.Outcome, error) {
			w.happen(a.Intent.EffectKey)
			return channel.Delivered(channel.Evidence{}), nil
		}, state: ledger.StateCommitted, how: ledger.BySend, effects: 1, sends: 1},
		"past the ceiling of attempts, each proven not sent: never sent": {sheet: blind, policy: func(p *core.Policy) { p.AttemptCeiling = 3 }, send: func(*world, channel.Attempt, int) (channel.Outcome, error) {
			return channel.Outcome{}, channel.NotSent(errors.New("busy"))
		}, state: ledger.StateAbandoned, as: ledger.NeverSent, effects: 0, sends: 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tt.sheet)
			w.send = func(a channel.Attempt, n int) (channel.Outcome, error) { return tt.send(w, a, n) }
			b := newBench(t, w)
			e := b.engine(withPolicy(func(p *core.Policy) {
				if tt.policy != nil {
					tt.policy(p)
				}
			}))
			b.start(e)
			c := b.claim("effect")
			i := b.ended(e, b.claimed(e, c))
			if i.State != tt.state || i.AbandonedAs != tt.as || i.Held() != tt.held || i.Established != tt.how {
				t.Fatalf("got %s %s held=%v established=%s (%s), want %s %s held=%v %s", i.State, i.AbandonedAs, i.Held(), i.Established, i.LastError,
					tt.state, tt.as, tt.held, tt.how)
			}
			b.wantEffects(c.EffectKey, tt.effects)
			if got := w.sent(c.EffectKey); got != tt.sends {
				t.Fatalf("sent %d times, want %d", got, tt.sends)
			}
			outcome := map[bool]receipt.Outcome{true: receipt.Held}[tt.held]
			switch tt.state {
			case ledger.StateCommitted:
				outcome = receipt.Committed
			case ledger.StateAbandoned:
				outcome = receipt.Abandoned
			}
			b.wantReceipt(i.Key, outcome)
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(channel.Attempt, int) (channel.Outcome, error) {
		return channel.Outcome{}, &channel.NotSentError{RetryAfter: time.Hour, Err: errors.New("429")}
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	i := b.until(k, "reopened", func(i ledger.Intent) bool { return i.State == ledger.StateIntent && i.Attempts == 1 })
	if wait := i.DueAt.Sub(i.CreatedAt); wait < time.Hour-time.Minute {
		t.Fatalf("due again after %s, want the hour that was asked for", wait)
	}
}

func TestConfigurationFaultPausesTheChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(channel.Attempt, int) (channel.Outcome, error) {
		return channel.Outcome{}, &channel.NotSentError{Configuration: true, Err: errors.New("535 authentication failed")}
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	b.until(k, "reopened", func(i ledger.Intent) bool { return i.State == ledger.StateIntent && i.Attempts == 1 })
	row, err := b.ledger.ChannelRow(t.Context(), "test/one")
	if err != nil || !row.Paused || !strings.Contains(row.PauseReason, "535") {
		t.Fatalf("channel is %+v, %v; want it paused with the reason", row, err)
	}
	// A person mends it and sets it going.
	w.mu.Lock()
	w.send = nil
	w.mu.Unlock()
	if err := b.ledger.SetPaused(t.Context(), "test/one", false, ""); err != nil {
		t.Fatal(err)
	}
	if i := b.ended(e, k); i.State != ledger.StateCommitted {
		t.Fatalf("got %s", i.Outcome())
	}
}

// TestLateEvidenceIsUsed has a sender whose fence is taken over while it sends: what it then learns settles the intent.
func TestLateEvidenceIsUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(channel.Sheet{Kind: "test", Begin: true}) // no probe: the other engine can only hold
	release, sending := make(chan struct{}), make(chan struct{})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		close(sending)
		<-release
		return channel.Delivered(channel.Evidence{ID: "late"}), nil
	}
	b := newBench(t, w)
	slow := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.Instance = "slow" })
	stopSlow := b.start(slow)
	k := b.claimed(slow, b.claim("effect"))
	<-sending
	other := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.Instance = "other" })
	b.start(other)
	b.until(k, "held by the other engine", func(i ledger.Intent) bool { return i.Held() })
	close(release)
	i := b.until(k, "committed", func(i ledger.Intent) bool { return i.State == ledger.StateCommitted })
	if i.Established != ledger.ByLate || ledger.EvidenceID(i.Evidence) != "late" {
		t.Fatalf("established by %s with %s", i.Established, i.Evidence)
	}
	b.wantEffects(k.EffectKey, 1)
	b.wantReceipt(k, receipt.Committed)
	stopSlow()
}

func TestFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	b := newBench(t, w)
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.Flag = ledger.FlagOff })
	b.start(e)
	ctx := t.Context()
	if _, err := e.Claim(ctx, b.claim("off")); !errors.Is(err, ledger.ErrChannelOff) {
		t.Fatalf("a claim while off: %v", err)
	}
	set := func(f ledger.Flag) {
		t.Helper()
		if err := b.ledger.SetFlag(ctx, "test/one", f); err != nil {
			t.Fatal(err)
		}
	}
	set(ledger.FlagShadow)
	real := b.claim("effect")
	shadow := b.claimed(e, real)
	i := b.ended(e, shadow)
	if i.State != ledger.StateAbandoned || i.AbandonedAs != ledger.NeverSent || !i.Shadow() {
		t.Fatalf("in shadow: %s %s %s", i.EffectKey, i.Outcome(), i.AbandonReason)
	}
	if w.sent(shadow.EffectKey) != 0 || w.tokens == 0 {
		t.Fatalf("in shadow: %d sends, %d tokens; want none and some", w.sent(shadow.EffectKey), w.tokens)
	}
	set(ledger.FlagPaused)
	k := b.claimed(e, real) // the real key is free
	time.Sleep(50 * time.Millisecond)
	if w.sent(k.EffectKey) != 0 {
		t.Fatal("sent while paused")
	}
	set(ledger.FlagOn)
	if i := b.ended(e, k); i.State != ledger.StateCommitted {
		t.Fatalf("after turning on: %s", i.Outcome())
	}
	b.wantEffects(k.EffectKey, 1)
}

// TestStopBurnsNothing stops an engine while it sends: what is under way ends well, what waits is not touched.
func TestStopBurnsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending, release := make(chan struct{}, 8), make(chan struct{})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		sending <- struct{}{}
		<-release
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: a.Intent.EffectKey}), nil
	}
	b := newBench(t, w)
	e := b.engine(withPolicy(func(p *core.Policy) { p.Concurrency = 1 }))
	first := b.claimed(e, b.claim("first"))
	second := b.claimed(e, b.claim("second"))
	stop := b.start(e)
	<-sending
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("stopped without waiting for the send")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-stopped
	states := map[ledger.State]int{}
	for _, k := range []ledger.Key{first, second} {
		i, _, err := b.ledger.Intent(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		states[i.State]++
		if i.State == ledger.StateIntent && (i.Starts != 0 || i.Attempts != 0) {
			t.Fatalf("the waiting intent has %d starts, %d attempts", i.Starts, i.Attempts)
		}
	}
	if states[ledger.StateCommitted] != 1 || states[ledger.StateIntent] != 1 {
		t.Fatalf("states after the stop: %v", states)
	}
	next := b.engine()
	b.start(next)
	b.ended(next, first)
	b.ended(next, second)
	b.wantEffects(first.EffectKey, 1)
	b.wantEffects(second.EffectKey, 1)
}

func TestLaneKeepsItsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	var order []string
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		if n == 1 && len(order)%2 == 0 {
			return channel.Outcome{}, channel.NotSent(errors.New("busy")) // every other head is tried again, and keeps its place
		}
		w.mu.Lock()
		order = append(order, string(a.Intent.Payload))
		w.mu.Unlock()
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: a.Intent.EffectKey}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	var want []string
	var keys []ledger.Key
	for n := range 8 {
		c := b.claim(fmt.Sprint("effect ", n), func(c *ledger.Claim) { c.Lane = "one" })
		want = append(want, string(c.Payload))
		keys = append(keys, b.claimed(e, c))
	}
	b.start(e)
	for _, k := range keys {
		b.ended(e, k)
	}
	if got := fmt.Sprint(order); got != fmt.Sprint(want) {
		t.Fatalf("order %s\nwant  %s", got, want)
	}
}

func TestAcceptedIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	sheet := exactSheet
	sheet.MayAccept, sheet.FinalWithin = true, channel.Duration(time.Minute)
	w := newWorld(sheet)
	var looks atomic.Int64
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		return channel.Accepted(channel.Evidence{ID: "pending"}, 10*time.Millisecond), nil
	}
	w.probe = func(a channel.Attempt) (channel.Finding, error) {
		if a.Accepted == nil || a.Accepted.ID != "pending" {
			return channel.Finding{}, fmt.Errorf("the probe was not told what was accepted: %+v", a.Accepted)
		}
		if looks.Add(1) < 3 {
			return channel.AcceptedFinding(channel.Evidence{ID: "pending"}, 0), nil
		}
		return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "final"}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	if i := b.ended(e, k); i.State != ledger.StateCommitted || ledger.EvidenceID(i.Evidence) != "final" {
		t.Fatalf("got %s with %s", i.Outcome(), i.Evidence)
	}
	if n := w.sent(k.EffectKey); n != 1 {
		t.Fatalf("sent %d times, want once", n)
	}
}

func TestHeldIntentIsStillProbed(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	var seen atomic.Bool
	w.send = func(channel.Attempt, int) (channel.Outcome, error) { return channel.Outcome{}, errors.New("lost") }
	w.probe = func(a channel.Attempt) (channel.Finding, error) {
		if seen.Load() {
			return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "found"}), nil
		}
		return channel.UnknownFinding("the mailbox does not answer"), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	if i := b.ended(e, k); !i.Held() {
		t.Fatalf("got %s, want held", i.Outcome())
	}
	seen.Store(true)
	i := b.until(k, "committed", func(i ledger.Intent) bool { return i.State == ledger.StateCommitted })
	if i.Established != ledger.ByProbe || i.Held() {
		t.Fatalf("established by %s, held %v", i.Established, i.Held())
	}
	b.wantReceipt(k, receipt.Held)
	b.wantReceipt(k, receipt.Committed)
}

// TestConfigurationNamesEveryFault: one start shows everything that is wrong.
func TestConfigurationNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := core.New(t.Context(), core.Options{
		HeartbeatEvery: time.Minute, HeartbeatTimeout: time.Second,
		Channels: []core.ChannelOptions{
			{Name: "mail/x", Channel: newWorld(exactSheet), Policy: core.Policy{}},
			{Name: "test/a", Channel: newWorld(exactSheet), Policy: core.Policy{Unknown: core.UnknownHold, SendTimeout: time.Hour}},
			{Name: "test/a"},
		},
	})
	var config *core.ConfigError
	if !errors.As(err, &config) {
		t.Fatalf("got %v, want a ConfigError", err)
	}
	for _, want := range []string{"ledger: is required", "heartbeat_timeout", "channel mail/x: kind:", "unknown: must be stated", "channel test/a: fence_ttl: send_timeout 1h0m0s + commit_bound 5s", "channel test/a: channel: is required", "configured twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// TestCancelledReplayIsFoundOut: an attempt in doubt whose run was cancelled is not sent again, though that would be harmless; it is
// probed, and ends as what became of it.
func TestCancelledReplayIsFoundOut(t *testing.T) {
	t.Parallel()
	sheet := exactSheet
	sheet.Replay = channel.ReplayForEver
	w := newWorld(sheet)
	sent := make(chan struct{}, 1)
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		sent <- struct{}{}
		return channel.Outcome{}, errors.New("lost")
	}
	b := newBench(t, w)
	ctx := t.Context()
	if _, _, err := b.ledger.CreateRun(ctx, fence.NewRun{ID: b.runID}); err != nil {
		t.Fatal(err)
	}
	e := b.engine()
	if _, err := b.ledger.ChannelRow(ctx, "test/one"); err != nil {
		t.Fatal(err)
	}
	k := b.claimed(e, b.claim("effect"))
	// Send, without anybody to reconcile, then cancel the run.
	short, cancel := context.WithTimeout(ctx, slowness*300*time.Millisecond)
	defer cancel()
	_, _ = e.Do(short, b.claim("effect"))
	<-sent
	if err := b.ledger.CancelRun(ctx, b.runID, "ops", "not wanted any more"); err != nil {
		t.Fatal(err)
	}
	b.start(e)
	i := b.ended(e, k)
	if i.State != ledger.StateCommitted || i.Established != ledger.ByProbe || w.sent(k.EffectKey) != 1 {
		t.Fatalf("got %s by %s after %d sends; want committed by probe after one", i.Outcome(), i.Established, w.sent(k.EffectKey))
	}
}
