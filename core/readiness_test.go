package core_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// mayBeDown is a channel whose process is not always there.
type mayBeDown struct {
	*world
	down  atomic.Bool
	asked atomic.Int64
}

func (m *mayBeDown) Ready() error {
	m.asked.Add(1)
	if m.down.Load() {
		return errors.New("in backoff")
	}
	return nil
}

// TestNothingIsFencedOrProbedWhileTheAdapterIsDown: a deploy or a crash of an adapter burns no start, and what it cannot know is no
// finding.
func TestNothingIsFencedOrProbedWhileTheAdapterIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	c := &mayBeDown{world: w}
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) { // takes effect, and the adapter dies
		c.down.Store(true)
		w.happen(a.Intent.EffectKey)
		return channel.Outcome{}, errors.New("lost")
	}
	b := newBench(t, w)
	e := b.engine(func(_ *core.Options, o *core.ChannelOptions) { o.Channel, o.Policy.Concurrency = c, 1 })
	first := b.claimed(e, b.claim("first"))
	b.start(e)
	b.until(first, "in doubt", func(i ledger.Intent) bool { return i.Stamped() && i.FenceOwner == "" })
	second := b.claimed(e, b.claim("second"))
	for before := c.asked.Load(); c.asked.Load() < before+20; { // dispatcher and reconciler have both looked, often
		time.Sleep(5 * time.Millisecond)
	}
	one, _, err1 := b.ledger.Intent(t.Context(), first)
	two, _, err2 := b.ledger.Intent(t.Context(), second)
	if err := errors.Join(err1, err2); err != nil || one.Probes != 0 || one.Held() || two.Starts != 0 {
		t.Fatalf("while it was down: %d probes, held %v; %d starts; %v", one.Probes, one.Held(), two.Starts, err)
	}
	w.mu.Lock()
	w.send = nil
	w.mu.Unlock()
	c.down.Store(false)
	for _, k := range []ledger.Key{first, second} {
		if i := b.ended(e, k); i.State != ledger.StateCommitted {
			t.Errorf("%s: got %s", k, i.Outcome())
		}
		b.wantEffects(k.EffectKey, 1)
	}
}
