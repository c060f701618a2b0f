package ledger

import (
	"context"
	"sync"
	"time"
)

// MinRetention is the least time since its end after which an intent can be pruned.
const MinRetention = 24 * time.Hour

// Retention removes what is not needed for ever.
type Retention interface {
	// Prune removes payload, tokens and dispatch log of up to limit intents that ended longer ago than olderThan (at least
	// [MinRetention]), on the database's clock, and whose receipts are issued; 0 or less: 500, more than 1000: 1000. Run, key, digest, state, external id and receipts
	// stay for ever: a claim of the key is still deduplicated. It also removes engine instances that stopped or fell silent so long ago. Call
	// it until Done. A dry run counts and removes nothing.
	Prune(ctx context.Context, olderThan time.Duration, limit int, dryRun bool) (Pruned, error)
}

const (
	// defaultPrune and maxPrune bound how many intents one Prune takes.
	defaultPrune, maxPrune = 500, 1000
)

// CheckPrune says what is wrong with a request to prune, an [*InvalidError], or how many intents it takes. It is for backends.
func CheckPrune(olderThan time.Duration, limit int) (int, error) {
	if olderThan < MinRetention {
		return 0, invalid("older_than", "is %s; what ended less than %s ago is kept", olderThan, MinRetention)
	}
	if limit <= 0 {
		limit = defaultPrune
	}
	return min(limit, maxPrune), nil
}

// Pruned says what one Prune removed.
type Pruned struct {
	Intents, Tokens, LogRows, Instances int
	Done                                bool
}

// Pruning remembers, for a backend, where the next call of Prune goes on, so that a pass over a large ledger reads each row once. It is
// only kept in memory: a pass that failed or was cut off begins again and finds nothing to do in what it had done. Passes of the same kind
// that are made at once share the work: each counts a part of it. The zero value is ready; it is safe for concurrent use.
type Pruning[P any] struct {
	mu sync.Mutex
	at map[pruneKind]P
}

type pruneKind struct {
	olderThan time.Duration
	dryRun    bool
}

// Place is where to go on; the zero place at the beginning.
func (p *Pruning[P]) Place(olderThan time.Duration, dryRun bool) P {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[pruneKind{olderThan, dryRun}]
}

// Went remembers the next place, or that the pass is done.
func (p *Pruning[P]) Went(olderThan time.Duration, dryRun bool, next P, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done {
		delete(p.at, pruneKind{olderThan, dryRun})
		return
	}
	if p.at == nil {
		p.at = map[pruneKind]P{}
	}
	p.at[pruneKind{olderThan, dryRun}] = next
}

// Broke forgets the place of a pass that failed: whoever asks next wants a whole one.
func (p *Pruning[P]) Broke(olderThan time.Duration, dryRun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, pruneKind{olderThan, dryRun})
}
