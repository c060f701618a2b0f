package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// crowd is a world whose sends wait until they are let go, and that knows how many are at it at once.
type crowd struct {
	now, most atomic.Int64
	arrived   chan struct{}
	letGo     chan struct{}
}

func newCrowd(w *world) *crowd {
	c := &crowd{arrived: make(chan struct{}, 100), letGo: make(chan struct{})}
	w.before = func(context.Context, channel.Attempt) error {
		n := c.now.Add(1)
		defer c.now.Add(-1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		c.arrived <- struct{}{}
		<-c.letGo
		return nil
	}
	return c
}

func (c *crowd) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-c.arrived:
		case <-time.After(slowness * 10 * time.Second):
			t.Fatalf("only %d sends are under way", c.now.Load())
		}
	}
}

func patient(p *core.Policy) {
	p.SendTimeout, p.FenceTTL = slowness*10*time.Second, slowness*30*time.Second
}

func TestConcurrencyGoesUpAndDownWhileTheEngineRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	c := newCrowd(w)
	b := newBench(t, w)
	e := b.engine(withPolicy(patient), withPolicy(func(p *core.Policy) { p.Concurrency = 1 }))
	var keys []ledger.Key
	for n := range 12 {
		keys = append(keys, b.claimed(e, b.claim(fmt.Sprint("effect ", n))))
	}
	b.start(e)
	c.await(t, 1)
	if n := e.InFlight("test/one"); n != 1 {
		t.Errorf("in flight: %d, want 1", n)
	}
	up, down := 4, 2
	if err := e.Adjust(t.Context(), "test/one", core.Limits{Concurrency: &up}); err != nil {
		t.Fatal(err)
	}
	c.await(t, 3) // besides the one that waits: nothing was let go
	if err := e.Adjust(t.Context(), "test/one", core.Limits{Concurrency: &down}); err != nil {
		t.Fatal(err)
	}
	if n := c.now.Load(); n != 4 {
		t.Errorf("after a smaller limit %d sends are under way: one was cut", n)
	}
	for range 4 { // the four, of which two are followed by another
		c.letGo <- struct{}{}
	}
	c.await(t, 2)
	c.most.Store(0)
	close(c.letGo)
	for _, k := range keys {
		if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Attempts != 1 {
			t.Errorf("%s: %s after %d attempts", k.EffectKey, i.Outcome(), i.Attempts)
		}
	}
	if most := c.most.Load(); most > 2 {
		t.Errorf("%d sends at once under a limit of 2", most)
	}
}

func TestAdjustChangesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.RatePerMinute, c.ApprovalRequired = 600, true })
	ctx := t.Context()
	if err := b.ledger.SetFlag(ctx, "test/one", ledger.FlagPaused); err != nil {
		t.Fatal(err)
	}
	if err := b.ledger.SetPaused(ctx, "test/one", true, "a person"); err != nil {
		t.Fatal(err)
	}
	rate, no := 7, false
	for _, step := range []struct {
		limits core.Limits
		want   string
	}{
		{core.Limits{RatePerMinute: &rate}, "paused true 7 true"},
		{core.Limits{ApprovalRequired: &no}, "paused true 7 false"},
		{core.Limits{Flag: ledger.FlagShadow}, "shadow true 7 false"},
		{core.Limits{}, "shadow true 7 false"},
	} {
		if err := e.Adjust(ctx, "test/one", step.limits); err != nil {
			t.Fatal(err)
		}
		row, err := b.ledger.ChannelRow(ctx, "test/one")
		if got := fmt.Sprint(row.Flag, " ", row.Paused, " ", row.RatePerMinute, " ", row.ApprovalRequired); err != nil || got != step.want {
			t.Errorf("the channel is %s (%v), want %s", got, err, step.want)
		}
	}
}

func TestAdjustRefusesWhatIsWrongAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine()
	tooMany, negative, rate := 5000, -1, 3
	for want, l := range map[string]core.Limits{
		"concurrency: must be between": {Concurrency: &tooMany, RatePerMinute: &rate},
		"rate_per_minute: must not be": {RatePerMinute: &negative},
		`flag: "of" is none of`:        {Flag: "of", RatePerMinute: &rate},
	} {
		err := e.Adjust(t.Context(), "test/one", l)
		var fault *core.ConfigError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), "channel test/one: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := e.Adjust(t.Context(), "test/two", core.Limits{}); !errors.Is(err, core.ErrNotConfigured) {
		t.Errorf("an unknown channel gives %v", err)
	}
	if row, err := b.ledger.ChannelRow(t.Context(), "test/one"); err != nil || row.RatePerMinute != 0 || row.Flag != ledger.FlagOn {
		t.Errorf("the channel is %+v (%v)", row, err)
	}
}

func TestAChannelThatIsAddedJoinsTheRunningEngine(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine()
	added := newWorld(exactSheet)
	o := core.ChannelOptions{Name: "test/late", Channel: added, Policy: quick()}
	// Its row is there already, from an engine before, and so is a claim.
	before := b.engine(func(all *core.Options, _ *core.ChannelOptions) { all.Channels = append(all.Channels, o) })
	late := func(c *ledger.Claim) { c.Channel = "test/late" }
	k := b.claimed(before, b.claim("waits", late))
	stop := b.start(e)
	first := b.claimed(e, b.claim("first"))
	b.ended(e, first) // it runs
	wrong := o
	wrong.Policy.Unknown = ""
	var fault *core.ConfigError
	if err := e.Add(t.Context(), wrong); !errors.As(err, &fault) || !strings.Contains(err.Error(), "channel test/late: unknown: must be stated") {
		t.Errorf("a policy that states nothing gives %v", err)
	}
	if err := e.Add(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := e.Add(t.Context(), o); !errors.As(err, &fault) {
		t.Errorf("a second Add gives %v", err)
	}
	if i := b.ended(e, k); i.State != ledger.StateCommitted || added.count(k.EffectKey) != 1 {
		t.Errorf("the claim that waited is %s, effects %d", i.Outcome(), added.count(k.EffectKey))
	}
	if o, err := e.Do(inTime(t), b.claim("inline", late)); err != nil || o.Intent.State != ledger.StateCommitted {
		t.Errorf("inline: %+v, %v", o, err)
	}
	if got := strings.Join(e.Channels(), " "); got != "test/late test/one" {
		t.Errorf("channels: %s", got)
	}
	stop()
	o.Name = "test/later" // to an engine that does not run: it begins with it at the next Run
	if err := e.Add(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	last := b.claimed(e, b.claim("last", func(c *ledger.Claim) { c.Channel = "test/later" }))
	b.start(e)
	b.ended(e, last)
}

func TestChannelsAreAddedWhileTheEngineStops(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	e := b.engine()
	stop := b.start(e)
	b.ended(e, b.claimed(e, b.claim("it runs")))
	var adding sync.WaitGroup
	for n := range 8 {
		adding.Go(func() {
			o := core.ChannelOptions{Name: fmt.Sprint("test/", n), Channel: newWorld(exactSheet), Policy: quick()}
			if err := e.Add(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	stop()
	adding.Wait()
	if n := len(e.Channels()); n != 9 {
		t.Errorf("%d channels", n)
	}
}

// stopsBeforeFence is a ledger that ends a context when the dispatcher has taken of the channel's rate, right before it would fence.
type stopsBeforeFence struct {
	ledger.Ledger
	stop   func()
	fences atomic.Int64
}

func (s *stopsBeforeFence) TakeRate(ctx context.Context, name string, want int) (int, time.Duration, error) {
	granted, wait, err := s.Ledger.TakeRate(ctx, name, want)
	s.stop()
	return granted, wait, err
}

func (s *stopsBeforeFence) Fence(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	s.fences.Add(1)
	return s.Ledger.Fence(ctx, r)
}

func TestAnEngineThatStopsFencesNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	ctx, cancel := context.WithCancel(t.Context())
	stopping := &stopsBeforeFence{Ledger: b.ledger, stop: cancel}
	b.ledger = stopping
	e := b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.RatePerMinute = 60 })
	k := b.claimed(e, b.claim("waits"))
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if i, _, err := b.ledger.Intent(t.Context(), k); err != nil || i.Starts != 0 || stopping.fences.Load() != 0 {
		t.Errorf("after the stop: %d starts, %d fences, %v", i.Starts, stopping.fences.Load(), err)
	}
	if granted, _, err := b.ledger.TakeRate(t.Context(), "test/one", 1); err != nil || granted != 1 {
		t.Errorf("the rate that was taken was not given back: %d, %v", granted, err)
	}
}

func TestWhatIsNotStampedWhenTheGraceIsOverIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	making := make(chan struct{}, 8)
	w.token = func(channel.TokenRequest) (channel.Token, error) {
		making <- struct{}{}
		time.Sleep(100 * time.Millisecond) // past the grace; it takes no context
		return channel.Token{}, errors.New("too late")
	}
	b := newBench(t, w)
	e := b.engine(withPolicy(patient), func(o *core.Options, _ *core.ChannelOptions) { o.StopGrace = time.Millisecond })
	k := b.claimed(e, b.claim("slow"))
	stop := b.start(e)
	<-making
	stop()
	if i, _, err := b.ledger.Intent(t.Context(), k); err != nil || i.State != ledger.StateIntent || i.Attempts != 0 {
		t.Errorf("after the stop it is %s, %d attempts, %v: nobody could send it until its fence is dead", i.State, i.Attempts, err)
	}
}
