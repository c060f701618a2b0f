package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

type guarded = func(context.Context) (json.RawMessage, error)

// guardOptions are those of one call; short ends soon enough for a test to see the end.
func (b *bench) guardOptions() core.GuardOptions {
	return core.GuardOptions{RunID: b.runID, Key: "step", Owner: "worker", TTL: time.Minute, ClockAllowance: time.Millisecond}
}

func (b *bench) local() ledger.Key { return ledger.Key{RunID: b.runID, EffectKey: "local:step"} }

func never(t *testing.T) guarded {
	return func(context.Context) (json.RawMessage, error) {
		t.Error("the guarded function ran again")
		return nil, nil
	}
}

func answer(text string) guarded {
	return func(context.Context) (json.RawMessage, error) { return json.RawMessage(text), nil }
}

func TestGuardRunsOnceAndKeepsTheResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	o := b.guardOptions()
	o.Lease = b.leased("worker")
	got, err := core.Guard(inTime(t), b.ledger, o, answer(`{"id":7}`))
	if err != nil || string(got) != `{"id":7}` {
		t.Fatalf("first call: %s, %v", got, err)
	}
	for name, l := range map[string]ledger.Ledger{"same process": b.ledger, "after a restart": b.open()} {
		if got, err := core.Guard(inTime(t), l, o, never(t)); err != nil || string(got) != `{"id":7}` {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	other := o
	other.Payload = json.RawMessage(`{"another":"call"}`)
	var conflict *ledger.KeyConflictError
	if _, err := core.Guard(inTime(t), b.ledger, other, never(t)); !errors.As(err, &conflict) {
		t.Errorf("the same key for another call: %v, want a key conflict", err)
	}
	b.wantReceipt(b.local(), receipt.Committed)
}

func TestGuardedCallersAtOnceRunOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	var ran atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			got, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), func(context.Context) (json.RawMessage, error) {
				time.Sleep(20 * time.Millisecond) // long enough for the others to find it running
				return json.RawMessage(fmt.Sprint(ran.Add(1))), nil
			})
			if err != nil || string(got) != "1" {
				t.Errorf("got %s, %v; want the first one's result", got, err)
			}
		})
	}
	callers.Wait()
	if n := ran.Load(); n != 1 {
		t.Fatalf("ran %d times", n)
	}
}

func TestGuardWithoutItsLeaseRunsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	o := b.guardOptions()
	o.Lease = b.leased("worker")
	if err := b.ledger.Release(t.Context(), *o.Lease, fence.StatusReady); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Guard(inTime(t), b.ledger, o, never(t)); !errors.Is(err, fence.ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if _, _, err := b.ledger.Intent(t.Context(), b.local()); !errors.Is(err, ledger.ErrNoIntent) {
		t.Fatalf("something was left: %v", err)
	}
}

// TestGuardWhoseEndIsNotKnownIsNeverRunAgain has the three ways to leave no answer, and both policies.
func TestGuardWhoseEndIsNotKnownIsNeverRunAgain(t *testing.T) {
	lost := errors.New("connection reset")
	ways := map[string]struct {
		first guarded
		ttl   time.Duration
	}{
		"an error of no known type": {first: func(context.Context) (json.RawMessage, error) { return nil, lost }, ttl: time.Minute},
		"a panic":                   {first: func(context.Context) (json.RawMessage, error) { panic("nil map") }, ttl: time.Minute},
		"the process died":          {ttl: 20 * time.Millisecond},
	}
	policies := map[core.UnknownPolicy]string{"": "held as unknown, do not retry", core.UnknownHold: "held as unknown, do not retry", core.UnknownAbandon: "unknown, do not retry"}
	for name, way := range ways {
		for policy, want := range policies {
			t.Run(fmt.Sprintf("%s, policy %q", name, policy), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, newWorld(exactSheet))
				o := b.guardOptions()
				o.TTL, o.Unknown = way.ttl, policy
				if way.first == nil {
					if _, first, err := b.ledger.BeginGuard(t.Context(), ledger.GuardRequest{RunID: o.RunID, Key: o.Key, Owner: "dead", TTL: o.TTL}); err != nil || !first {
						t.Fatal(first, err)
					}
				} else {
					func() {
						defer func() {
							if p := recover(); p != nil && p != "nil map" {
								t.Errorf("the panic became %v", p)
							}
						}()
						if _, err := core.Guard(inTime(t), b.ledger, o, way.first); !errors.Is(err, lost) {
							t.Errorf("the caller is told %v, want its own error", err)
						}
					}()
				}
				var i ledger.Intent
				for tries := 0; tries < 500 && i.Outcome() != want; tries++ { // the dead one's fence runs out
					if _, err := core.Guard(inTime(t), b.ledger, o, never(t)); !errors.Is(err, core.ErrGuardUnknown) {
						t.Fatalf("got %v, want ErrGuardUnknown", err)
					}
					var err error
					if i, _, err = b.ledger.Intent(t.Context(), b.local()); err != nil {
						t.Fatal(err)
					}
				}
				if i.Outcome() != want {
					t.Fatalf("the intent is %s, want %s", i.Outcome(), want)
				}
			})
		}
	}
}

func TestGuardThatProvedNotSentIsAbandonedAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	cause := errors.New("no such printer")
	if _, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), func(context.Context) (json.RawMessage, error) {
		return nil, channel.NotSent(cause)
	}); !errors.Is(err, cause) {
		t.Fatalf("got %v, want its own error", err)
	}
	_, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), never(t))
	if err == nil || errors.Is(err, core.ErrGuardUnknown) || !strings.Contains(err.Error(), "never sent") || !strings.Contains(err.Error(), "no such printer") {
		t.Fatalf("the next call is told %v", err)
	}
	b.wantReceipt(b.local(), receipt.Abandoned)
}

// TestGuardedFunctionEndsBeforeItsFence: its context leaves time to write what it came to.
func TestGuardedFunctionEndsBeforeItsFence(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	o := b.guardOptions()
	o.TTL = 10 * time.Second
	before := time.Now()
	if _, err := core.Guard(inTime(t), b.ledger, o, func(ctx context.Context) (json.RawMessage, error) {
		end, ok := ctx.Deadline()
		if left := end.Sub(before); !ok || left > 9*time.Second || left < 5*time.Second {
			t.Errorf("the function may run for %s of %s", left, o.TTL)
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := core.Guard(inTime(t), b.ledger, o, never(t)); err != nil || len(got) != 0 {
		t.Errorf("a result of nothing is kept as %q, %v", got, err)
	}
}

// TestLateResultOfAGuardIsKept has a function that runs on after its time; an engine has held its intent meanwhile.
func TestLateResultOfAGuardIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.ScanEvery = 10 * time.Millisecond })
	o := b.guardOptions()
	o.TTL = 50 * time.Millisecond
	got, err := core.Guard(inTime(t), b.ledger, o, func(context.Context) (json.RawMessage, error) {
		stop := b.start(e)
		b.until(b.local(), "held", func(i ledger.Intent) bool { return i.Held() })
		stop()
		return json.RawMessage(`"late"`), nil
	})
	if err != nil || string(got) != `"late"` {
		t.Fatalf("got %s, %v", got, err)
	}
	if got, err := core.Guard(inTime(t), b.ledger, o, never(t)); err != nil || string(got) != `"late"` {
		t.Fatalf("the next call: %s, %v", got, err)
	}
	i, _, err := b.ledger.Intent(t.Context(), b.local())
	if err != nil || i.Established != ledger.ByLate {
		t.Fatalf("established by %s, %v", i.Established, err)
	}
	b.wantReceipt(b.local(), receipt.Held)
	b.wantReceipt(b.local(), receipt.Committed)
}

func TestGuardSaysThatAResultCouldNotBeKeptWhole(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]string{"too large": `"` + strings.Repeat("x", ledger.MaxEvidence) + `"`, "not JSON": "plain text"} {
		b := newBench(t, newWorld(exactSheet))
		if got, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), answer(result)); err != nil || string(got) != result {
			t.Errorf("%s: the first call got %.20s, %v", name, got, err)
		}
		if got, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), never(t)); err == nil || !strings.Contains(err.Error(), "could not be kept whole") {
			t.Errorf("%s: the next call got %.20s, %v", name, got, err)
		}
	}
}

func TestGuardOutlivesAMomentWithoutItsLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	f := &failing{Ledger: b.ledger}
	got, err := core.Guard(inTime(t), f, b.guardOptions(), func(context.Context) (json.RawMessage, error) {
		f.down.Store(true)
		time.AfterFunc(200*time.Millisecond, func() { f.down.Store(false) })
		return json.RawMessage("1"), nil
	})
	if err != nil || string(got) != "1" || f.tried.Load() == 0 {
		t.Fatalf("got %s, %v after %d moves that failed", got, err, f.tried.Load())
	}
	if got, err := core.Guard(inTime(t), b.ledger, b.guardOptions(), never(t)); err != nil || string(got) != "1" {
		t.Fatalf("the next call: %s, %v", got, err)
	}
}

func TestGuardRefusesToRunAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	o := b.guardOptions()
	o.Unknown = core.UnknownResend
	if _, err := core.Guard(inTime(t), b.ledger, o, never(t)); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Fatalf("got %v", err)
	}
}

// TestRecordedEffectEndsByItsCallerOrAsUnknown: RecordOnce says who is first; Finish, or the time, ends it.
func TestRecordedEffectEndsByItsCallerOrAsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	record := func(key string, expires time.Duration) (first bool) {
		t.Helper()
		if err := b.ledger.InTx(t.Context(), func(tx ledger.Tx) (err error) {
			first, err = b.ledger.RecordOnce(t.Context(), tx, b.runID, key, expires)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return first
	}
	if !record("finished", time.Minute) || record("finished", time.Minute) {
		t.Fatal("not exactly the first caller is told so")
	}
	if err := b.ledger.Finish(t.Context(), b.runID, "finished", channel.Evidence{ID: "done"}); err != nil {
		t.Fatal(err)
	}
	if err := b.ledger.Finish(t.Context(), b.runID, "finished", channel.Evidence{}); !errors.Is(err, ledger.ErrTerminal) {
		t.Fatalf("a second end: %v", err)
	}
	record("forgotten", 10*time.Millisecond)
	record("under way", time.Minute)
	e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.ScanEvery = 10 * time.Millisecond })
	b.start(e)
	i := b.until(ledger.Key{RunID: b.runID, EffectKey: "local:forgotten"}, "ended", func(i ledger.Intent) bool { return i.State.Terminal() })
	if i.Outcome() != "unknown, do not retry" {
		t.Errorf("what nobody finished is %s", i.Outcome())
	}
	for key, want := range map[string]string{"local:finished": "committed", "local:under way": "in progress"} {
		if i, _, err := b.ledger.Intent(t.Context(), ledger.Key{RunID: b.runID, EffectKey: key}); err != nil || i.Outcome() != want {
			t.Errorf("%s is %s, %v; want %s", key, i.Outcome(), err, want)
		}
	}
	b.wantReceipt(i.Key, receipt.Abandoned)
}
