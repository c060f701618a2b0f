package ledger

import (
	"context"
	"time"
)

// MinRetention is the least time since its end after which an intent can be pruned.
const MinRetention = 24 * time.Hour

// Retention removes what is not needed for ever.
type Retention interface {
	// Prune removes payload, tokens and dispatch log of up to limit intents that ended longer ago than olderThan (at least
	// [MinRetention]), on the database's clock, and whose receipts are issued. Run, key, digest, state, external id and receipts
	// stay for ever: a claim of the key is still deduplicated. It also removes engine instances that stopped or fell silent so long ago. Call
	// it until Done. A dry run counts and removes nothing.
	Prune(ctx context.Context, olderThan time.Duration, limit int, dryRun bool) (Pruned, error)
}

// Pruned says what one Prune removed.
type Pruned struct {
	Intents, Tokens, LogRows, Instances int
	Done                                bool
}
