package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// world is the outside system: it takes effects, and counts them on its own.
type world interface {
	// kind is the adapter's kind, adapter its bundled name, config what the adapter is configured with.
	kind() string
	adapter() string
	config() map[string]any
	// claim is the n-th effect of the run.
	claim(n int) (payload json.RawMessage, effectKey string, err error)
	// cut cuts what is open to it; gap arranges that strike is called in the gap between the next acceptance and its reply. Both report
	// false where there is no wire.
	cut() bool
	gap(strike func()) bool
	// count returns how often each effect took place, by the marker of the claim's number.
	count(ctx context.Context) (map[int]int, error)
	close() error
}

func openWorld(ctx context.Context, o Options, dir string) (world, error) {
	switch {
	case o.Channel == "file":
		return newFileWorld(dir)
	case o.SMTP != "":
		return newForeignMail(ctx, o)
	default:
		return newOwnMail(o)
	}
}

// marker is in every payload, so that the outside world can be counted by content and not by anything that the engine made.
func marker(run string, n int) string { return fmt.Sprintf("pawl-demo-%s-%06d", run, n) }

// tally is what the count came to.
type tally struct {
	delivered  int // effects in the outside world
	duplicates int // beyond the first of each
	missing    []int
}

func tallyOf(counts map[int]int, n int) tally {
	var t tally
	for i := range n {
		c := counts[i]
		t.delivered += c
		if c > 1 {
			t.duplicates += c - 1
		}
		if c == 0 {
			t.missing = append(t.missing, i)
		}
	}
	return t
}

// lost counts claimed effects that did not take place and that nobody is told about: not held, not abandoned.
func (t tally) lost(intents []ledger.Intent) int {
	n := 0
	for _, i := range t.missing {
		switch in := intents[i]; {
		case in.Held(), in.State == ledger.StateAbandoned:
		default:
			n++
		}
	}
	return n
}
