package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// tracker measures how long after a kill the intents that were under way are settled.
type tracker struct {
	ledger ledger.Ledger
	mu     sync.Mutex
	open   map[ledger.Key]time.Time
	took   []time.Duration
}

// struck notes what is under way now.
func (t *tracker) struck(ctx context.Context) {
	under, _, err := t.ledger.Intents(ctx, ledger.Filter{State: ledger.StateDispatched, Limit: 1000})
	if err != nil {
		return // a measurement is not worth failing for
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[ledger.Key]time.Time{}
	}
	for _, i := range under {
		if _, ok := t.open[i.Key]; !ok {
			t.open[i.Key] = time.Now()
		}
	}
}

// watch looks at what is open until ctx ends.
func (t *tracker) watch(ctx context.Context) {
	for pause(ctx, 100*time.Millisecond) {
		t.mu.Lock()
		keys := make([]ledger.Key, 0, len(t.open))
		for k := range t.open {
			keys = append(keys, k)
		}
		t.mu.Unlock()
		for _, k := range keys {
			i, _, err := t.ledger.Intent(ctx, k)
			if err != nil || !i.State.Terminal() && !i.Held() {
				continue
			}
			t.mu.Lock()
			t.took = append(t.took, time.Since(t.open[k]))
			delete(t.open, k)
			t.mu.Unlock()
		}
	}
}

// quantiles returns the median and the longest time.
func (t *tracker) quantiles() (median, longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0, 0
	}
	slices.Sort(t.took)
	return t.took[len(t.took)/2], t.took[len(t.took)-1]
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
