package ledger_test

import (
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// outside is an outside world: requests fly, land late or never, and it counts what took effect.
type outside struct {
	sheet   channel.Sheet
	flights []flight
	landed  []flight // every one that arrived, deduplicated or not
	effects int
	seen    map[string]time.Time // tokens it remembers
}

// flight is one request that left the host.
type flight struct {
	attempt  int
	token    string
	lastLand time.Time // not after it: the world's promise is the sheet's settle time
	at       time.Time
}

// id is the evidence that the world gives for a request: one for an effect, so the same for a deduplicated one.
func (w *outside) id(f flight) string {
	if w.sheet.Replay == channel.ReplayNever {
		return fmt.Sprintf("effect of attempt %d", f.attempt)
	}
	return "effect of " + f.token
}

// land lets the n-th flight arrive. It reports false if it came too late and is lost.
func (w *outside) land(n int, now time.Time) bool {
	f := w.flights[n]
	w.flights = append(w.flights[:n:n], w.flights[n+1:]...)
	if now.After(f.lastLand) {
		return false
	}
	f.at = now
	first, known := w.seen[f.token]
	switch life := w.sheet.TokenLife.D(); {
	case w.sheet.Replay == channel.ReplayNever:
		known = false
	case known && life > 0 && now.Sub(first) > life:
		known = false
	}
	if !known {
		w.effects++
		w.seen[f.token] = now
	}
	w.landed = append(w.landed, f)
	return true
}

// forget drops the flights that can not arrive any more.
func (w *outside) forget(now time.Time) {
	kept := w.flights[:0:0]
	for _, f := range w.flights {
		if !now.After(f.lastLand) {
			kept = append(kept, f)
		}
	}
	w.flights = kept
}
