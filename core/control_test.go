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
	"github.com/pawlworks/pawl/ledger"
)

// fenceCounter counts how often a dispatcher asked for something to send.
type fenceCounter struct {
	ledger.Ledger
	seen atomic.Int64
}

func (r *fenceCounter) Fence(ctx context.Context, f ledger.FenceRequest) (ledger.FenceResult, error) {
	out, err := r.Ledger.Fence(ctx, f)
	r.seen.Add(1)
	return out, err
}

// looksAgain waits until the dispatcher has asked at least three times more.
func (r *fenceCounter) looksAgain() {
	for before := r.seen.Load(); r.seen.Load() < before+3; {
		time.Sleep(2 * time.Millisecond)
	}
}

func TestPersonPausesAndResumesWhileTheEngineRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	fences := &fenceCounter{Ledger: b.ledger}
	b.ledger = fences
	e := b.engine()
	b.start(e)
	for n := range 2 {
		if err := b.ledger.SetPaused(t.Context(), "test/one", true, "a look at the server"); err != nil {
			t.Fatal(err)
		}
		k := b.claimed(e, b.claim(fmt.Sprint("effect ", n)))
		fences.looksAgain()
		if i, _, err := b.ledger.Intent(t.Context(), k); err != nil || i.Starts != 0 || b.world.sent(k.EffectKey) != 0 {
			t.Fatalf("while paused: %d starts, %d sends, %v", i.Starts, b.world.sent(k.EffectKey), err)
		}
		if err := b.ledger.SetPaused(t.Context(), "test/one", false, ""); err != nil {
			t.Fatal(err)
		}
		if i := b.ended(e, k); i.State != ledger.StateCommitted {
			t.Fatalf("after the pause: %s", i.Outcome())
		}
	}
}

// cannotPause is a ledger whose first pauses fail.
type cannotPause struct {
	ledger.Ledger
	left atomic.Int64
}

func (c *cannotPause) SetPaused(ctx context.Context, name string, paused bool, reason string) error {
	if c.left.Add(-1) >= 0 {
		return errors.New("connection reset by peer")
	}
	return c.Ledger.SetPaused(ctx, name, paused, reason)
}

func TestPauseIsTriedUntilTheLedgerAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(channel.Attempt, int) (channel.Outcome, error) {
		return channel.Outcome{}, &channel.NotSentError{Configuration: true, Err: errors.New("535")}
	}
	b := newBench(t, w)
	c := &cannotPause{Ledger: b.ledger}
	c.left.Store(2)
	b.ledger = c
	e := b.engine(withPolicy(func(p *core.Policy) { p.Concurrency = 1 }))
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	b.until(k, "given back", func(i ledger.Intent) bool { return i.State == ledger.StateIntent && i.Attempts > 0 })
	row, err := b.ledger.ChannelRow(t.Context(), "test/one")
	if n := w.sent(k.EffectKey); err != nil || !row.Paused || n != 1 {
		t.Fatalf("paused %v after %d sends, %v; want paused after one", row.Paused, n, err)
	}
}

// approved gives a claim an approval until a time.
func (b *bench) approved(until time.Time) func(*ledger.Claim) {
	return func(c *ledger.Claim) {
		p, err := ledger.Prepare(*c)
		if err != nil {
			b.t.Fatal(err)
		}
		digest, err := ledger.ApprovalDigest(c.Channel, c.EffectKey, p.PayloadDigest)
		if err != nil {
			b.t.Fatal(err)
		}
		c.Approval = &ledger.Approval{By: "ann", Reference: "ticket " + c.EffectKey, Until: until, Digest: digest}
	}
}

func TestApprovalIsLookedAtWhenItIsClaimedAndWhenItIsSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	free := b.engine()
	before := b.claimed(free, b.claim("claimed before approvals were required"))
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.ApprovalRequired = true })
	good := b.approved(time.Now().Add(time.Hour))
	for name, change := range map[string]func(*ledger.Claim){
		"none":           func(c *ledger.Claim) { c.Approval = nil },
		"run out":        b.approved(time.Now().Add(-time.Second)),
		"wrong digest":   func(c *ledger.Claim) { good(c); c.Approval.Digest = strings.Repeat("a", 64) },
		"other payload":  func(c *ledger.Claim) { good(c); c.Payload = []byte(`{"name":"mallory"}`) },
		"names nobody":   func(c *ledger.Claim) { good(c); c.Approval.By = "" },
		"of another key": func(c *ledger.Claim) { good(c); c.EffectKey += "-2" },
	} {
		var invalid *ledger.InvalidError
		if r, err := e.Claim(t.Context(), b.claim("refused", change)); !errors.As(err, &invalid) || invalid.Field != "approval" {
			t.Errorf("%s: %+v, %v; want the approval refused", name, r, err)
		}
	}
	kept := b.claimed(e, b.claim("kept", good))
	now := time.Now()
	over := b.claimed(e, b.claim("over when it is due", b.approved(now.Add(slowness*400*time.Millisecond)), func(c *ledger.Claim) { c.DueAt = now.Add(slowness * 450 * time.Millisecond) }))
	b.start(e)
	for k, want := range map[ledger.Key]string{kept: "committed", over: "abandoned: never sent", before: "abandoned: never sent"} {
		if i := b.ended(e, k); i.Outcome() != want {
			t.Errorf("%s: %s (%s), want %s", k.EffectKey, i.Outcome(), i.AbandonReason, want)
		}
	}
	if n := b.world.sent(over.EffectKey) + b.world.sent(before.EffectKey); n != 0 {
		t.Errorf("%d sends without a good approval", n)
	}
}

func TestRateIsSharedByAllEngines(t *testing.T) {
	t.Parallel()
	const perSecond, claims = 20, 30
	w := newWorld(exactSheet)
	began := time.Now()
	var sent atomic.Int64
	w.before = func(context.Context, channel.Attempt) error {
		// A second's worth at once, then as the rate says.
		if n, most := sent.Add(1), perSecond+perSecond*time.Since(began).Seconds(); float64(n) > most {
			t.Errorf("send %d after %s, want at most %.1f", n, time.Since(began), most)
		}
		return nil
	}
	b := newBench(t, w)
	rated := func(_ *core.Options, c *core.ChannelOptions) { c.RatePerMinute = 60 * perSecond }
	one, two, inline := b.engine(rated), b.engine(rated), b.engine(rated)
	var keys []ledger.Key
	for n := range claims {
		keys = append(keys, b.claimed(one, b.claim(fmt.Sprint("effect ", n))))
	}
	b.start(one)
	b.start(two)
	last := b.claim("inline")
	if o, err := inline.Do(inTime(t), last); err != nil || o.Intent.Established != ledger.BySend {
		t.Errorf("inline: %+v, %v", o, err)
	}
	for _, k := range keys {
		if i := b.ended(one, k); i.Established != ledger.BySend {
			t.Fatalf("%s: %s, %s", k.EffectKey, i.Outcome(), i.LastError)
		}
	}
}

// TestShadowIntentLeavesItsLaneAsItWas: it takes its turn and gives it on, and no number of the lane is used up.
func TestShadowIntentLeavesItsLaneAsItWas(t *testing.T) {
	t.Parallel()
	sheet := exactSheet
	sheet.LaneRequired, sheet.LaneNumbers, sheet.Token = true, true, channel.TokenAllocated
	w := newWorld(sheet)
	numbers := make(chan string, 8)
	w.token = func(r channel.TokenRequest) (channel.Token, error) {
		numbers <- fmt.Sprint(r.Intent.EffectKey, " ", r.LaneNumber)
		return channel.Token{Data: fmt.Append(nil, r.Intent.EffectKey, r.LaneNumber), LaneNumber: r.LaneNumber}, nil
	}
	b := newBench(t, w)
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.Flag = ledger.FlagShadow })
	b.start(e)
	in := func(c *ledger.Claim) { c.Lane = "account" }
	one, two := b.claim("one", in), b.claim("two", in)
	shadow := b.claimed(e, one)
	if i := b.ended(e, shadow); i.AbandonedAs != ledger.NeverSent || !i.Shadow() {
		t.Fatalf("in shadow: %s, %s", i.EffectKey, i.Outcome())
	}
	if err := b.ledger.SetFlag(t.Context(), "test/one", ledger.FlagOn); err != nil {
		t.Fatal(err)
	}
	for _, c := range []ledger.Claim{one, two} {
		if i := b.ended(e, b.claimed(e, c)); i.State != ledger.StateCommitted {
			t.Fatalf("%s: %s", c.EffectKey, i.Outcome())
		}
	}
	for _, want := range []string{shadow.EffectKey + " 1", one.EffectKey + " 1", two.EffectKey + " 2"} {
		if got := <-numbers; got != want {
			t.Errorf("token made for %q, want %q", got, want)
		}
	}
	if n := w.sent(shadow.EffectKey); n != 0 {
		t.Errorf("%d sends in shadow", n)
	}
}

// TestHeldHeadOfALane blocks its lane, or does not, as the lane's policy says. Nothing in one lane delays another.
func TestHeldHeadOfALane(t *testing.T) {
	for policy, blocks := range map[core.LanePolicy]bool{"": true, core.LaneBlock: true, core.LaneSkip: false} {
		t.Run(fmt.Sprintf("policy %q", policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(channel.Sheet{Kind: "test", Begin: true})
			w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
				if strings.Contains(string(a.Intent.Payload), "head") {
					return channel.Outcome{}, errors.New("lost")
				}
				w.happen(a.Intent.EffectKey)
				return channel.Delivered(channel.Evidence{ID: "id"}), nil
			}
			b := newBench(t, w)
			fences := &fenceCounter{Ledger: b.ledger}
			b.ledger = fences
			e := b.engine(withPolicy(func(p *core.Policy) { p.Lane = policy }))
			in := func(lane string) func(*ledger.Claim) { return func(c *ledger.Claim) { c.Lane = lane } }
			head := b.claimed(e, b.claim("head", in("one")))
			next := b.claimed(e, b.claim("next", in("one")))
			other := b.claimed(e, b.claim("other", in("two")))
			b.start(e)
			held := b.ended(e, head)
			if !held.Held() {
				t.Fatalf("the head is %s", held.Outcome())
			}
			if i := b.ended(e, other); i.State != ledger.StateCommitted {
				t.Fatalf("another lane: %s", i.Outcome())
			}
			if blocks {
				fences.looksAgain()
				if i, _, err := b.ledger.Intent(t.Context(), next); err != nil || i.State != ledger.StateIntent || i.Starts != 0 {
					t.Fatalf("behind a held head: %s after %d starts, %v", i.State, i.Starts, err)
				}
				b.resolve(held, ledger.DecideNotSent)
			}
			if i := b.ended(e, next); i.State != ledger.StateCommitted {
				t.Fatalf("the next: %s", i.Outcome())
			}
		})
	}
}

// resolve is what a person does with a held intent.
func (b *bench) resolve(i ledger.Intent, as ledger.Decision) {
	b.t.Helper()
	r, err := b.ledger.Move(b.t.Context(), i.Key, ledger.ProbeFence{Owner: "ann", TTL: time.Minute, Person: true})
	if err == nil {
		_, err = b.ledger.Move(b.t.Context(), i.Key, ledger.Resolve{Fence: r.Intent.Fence(), As: as, By: "ann", Reason: "asked the recipient"})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
