package ledger

import (
	"context"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

// Signer makes receipts. It must be safe for concurrent use and must not call the ledger. If it fails, the receipt is
// recorded as owed and the move stands.
type Signer interface {
	Issue(e receipt.Effect) (receipt.Receipt, error)
}

// Ledger is what a backend implements. All methods are safe for concurrent use. Every method that writes commits before it
// returns, but for Claim, which writes in the caller's transaction. Errors of the database that a caller should answer by running
// its transaction again are [ErrRetryTransaction]; the ledger's own transactions are run again inside.
type Ledger interface {
	Claims
	Moves
	Reader
	Channels
	Effects
	Receipts
	Access
	Redrives
	Retention
	Epochs
	fence.Storage

	// ID is the ledger's id, a UUID made when it was migrated first; Epoch its present epoch.
	ID() string
	Epoch(ctx context.Context) (int64, error)
	// Now reads the database's clock.
	Now(ctx context.Context) (time.Time, error)
	// Close releases connections. It waits for calls under way.
	Close() error
}

// Claims takes claims.
type Claims interface {
	// Claim inserts intents in the caller's transaction. Results are in the order of the claims. A claim of a key that is there
	// already, with the same payload digest, is deduplicated; with another digest, Claim returns a [*KeyConflictError] (and the
	// results, so that the caller can see which), and the caller should roll back. Rows are inserted in order of lane, then key. A
	// claim under a lease verifies it last, with a share lock: [fence.ErrLost].
	Claim(ctx context.Context, tx Tx, claims ...Claim) ([]ClaimResult, error)
	// InTx runs f in a transaction of the ledger's own, again while the database asks for it, and commits. f must have no effects
	// of its own besides the transaction.
	InTx(ctx context.Context, f func(tx Tx) error) error
}

// Moves are made by engines and persons.
type Moves interface {
	// Fence takes due intents for dispatch, one transaction for the batch. Locked rows are skipped, never waited for.
	Fence(ctx context.Context, r FenceRequest) (FenceResult, error)
	// Move makes one move: lock the row, read the clock, [Apply], write. For [Late] the row may be missing.
	Move(ctx context.Context, k Key, m Move) (Result, error)
	// DueLooks returns dispatched intents of the channels whose next look is due, oldest first: hints for the reconciler.
	DueLooks(ctx context.Context, channels []string, limit int) ([]Key, error)
	// SilentLooks returns dispatched intents of the channel whose fence is alive but whose owner has not been seen for longer than silence:
	// hints for an early look, which [ProbeFence] allows or not. Owners that fell silent more than silence + 2 · ttl ago are left out: where
	// ttl is the longest fence of the channel, theirs are dead, and due.
	SilentLooks(ctx context.Context, channel string, silence, ttl time.Duration, limit int) ([]Key, error)
	// Scan compares one page of effect_intents, in key order after the cursor, with the queue, and mends the queue: it is what makes
	// a queue emptied by hand lose nothing. It returns where to go on; done at the end of the table. One bad row never stops it.
	Scan(ctx context.Context, after Key, limit int) (ScanResult, error)
}

// FenceRequest asks for intents to dispatch.
type FenceRequest struct {
	Fence
	Channel string
	Limit   int // at most this many
	// Only takes this one intent, due or not in a queue, for a lease holder that sends itself. Lease is then verified in the same
	// transaction.
	Only  *Key
	Lease *fence.Lease
}

// FenceResult is a batch.
type FenceResult struct {
	Dispatches []Dispatch
	// Settled are intents that were not dispatched but ended, held or taken for probing: cancelled, expired, past a ceiling, late
	// evidence.
	Settled []Intent
	Now     time.Time
	// NextDue is how long until the next intent of the channel is due; negative if none waits.
	NextDue time.Duration
	// RatePerMinute is the channel's shared rate as it is now; 0: none. Not read with Only.
	RatePerMinute int
}

// Dispatch is an intent that the caller may send.
type Dispatch struct {
	Intent Intent
	Tokens []channel.Token
	// LaneNumber is the next number of the lane's sequence: lanes.number + 1.
	LaneNumber int64
}

// ScanResult is the end of one page.
type ScanResult struct {
	Next     Key // cursor for the next page
	Done     bool
	Seen     int
	Repaired int
}

// Reader reads. Nothing here locks.
type Reader interface {
	// Intent returns one intent with its tokens. [ErrNoIntent].
	Intent(ctx context.Context, k Key) (Intent, []channel.Token, error)
	// Intents lists, newest claim first, a page at a time.
	Intents(ctx context.Context, f Filter) ([]Intent, Cursor, error)
	// Log returns the dispatch log of an intent, oldest first.
	Log(ctx context.Context, k Key) ([]LogEntry, error)
	// LateEvidence returns late evidence for the key, used or not, oldest first; also for a row that is missing.
	LateEvidence(ctx context.Context, k Key) ([]LateEvidence, error)
	Stats(ctx context.Context) (Stats, error)
}

// Filter selects intents. Zero fields select all.
type Filter struct {
	RunID   string
	Channel string
	State   State
	Held    bool // only held ones
	Limit   int  // default 100, at most 1000
	After   Cursor
}

// Cursor is where the next page of a list begins; empty for the first, and after the last.
type Cursor string

// Stats counts. It is exact and reads the whole queue, but of ended intents only the counters.
type Stats struct {
	Waiting       int // intents
	Dispatched    int // dispatched, not held, not accepted
	Accepted      int
	Held          int
	Committed     int
	Abandoned     int
	OldestWaiting time.Duration
	OldestUnknown time.Duration // of held intents
	// OldestUnresolved is of dispatched ones: since the stamp, or since the end of a fence under which nothing was stamped.
	OldestUnresolved time.Duration
	OwedReceipts     int
	// Channels counts what has not ended, by channel; channels with none are left out.
	Channels map[string]ChannelStats
}

// Add counts what has not ended on one channel, and to the whole. Only backends call it.
func (s *Stats) Add(channel string, c ChannelStats) {
	if s.Channels == nil {
		s.Channels = map[string]ChannelStats{}
	}
	s.Channels[channel] = c
	s.Waiting += c.Waiting
	s.Dispatched += c.Dispatched
	s.Accepted += c.Accepted
	s.Held += c.Held
	s.OldestWaiting = max(s.OldestWaiting, c.OldestWaiting)
	s.OldestUnknown = max(s.OldestUnknown, c.OldestUnknown)
	s.OldestUnresolved = max(s.OldestUnresolved, c.OldestUnresolved)
}

// ChannelStats counts what has not ended on one channel.
type ChannelStats struct {
	Waiting, Dispatched, Accepted, Held int
	OldestWaiting, OldestUnknown        time.Duration
	OldestUnresolved                    time.Duration
}

// Channels keeps what engines share about channels.
type Channels interface {
	// PutChannel stores kind, sheet, approval and rate of a channel at start; flag and pause are kept if the row exists.
	PutChannel(ctx context.Context, row ChannelRow) error
	// ChannelRow returns one channel. [ErrUnknownChannel], with the known names in the text.
	ChannelRow(ctx context.Context, name string) (ChannelRow, error)
	ChannelRows(ctx context.Context) ([]ChannelRow, error)
	SetFlag(ctx context.Context, name string, flag Flag) error
	SetPaused(ctx context.Context, name string, paused bool, reason string) error
	// TakeRate takes up to want sends from the channel's shared rate (a token bucket of one second's worth, at least one, on the
	// database's clock). A negative want gives back what was taken and not used. If none is granted it says after how long to ask again. Without a rate all are granted.
	TakeRate(ctx context.Context, name string, want int) (granted int, wait time.Duration, err error)
}

// Effects serves plain Go effects on [ChannelLocal].
type Effects interface {
	// RecordOnce inserts an intent on [ChannelLocal] in the caller's transaction and reports whether this caller was first. It is
	// ended by Finish, or expires as unknown. The key is stored as "local:"+key.
	RecordOnce(ctx context.Context, tx Tx, runID, key string, expires time.Duration) (first bool, err error)
	// Finish ends a recorded intent as committed; where a new epoch was opened meanwhile, the next look at it does. [ErrNoIntent], [ErrTerminal].
	Finish(ctx context.Context, runID, key string, result channel.Evidence) error
	// BeginGuard verifies the lease, inserts, fences and stamps, in one transaction. first is false if the key was there already; the
	// intent says what became of it.
	BeginGuard(ctx context.Context, g GuardRequest) (r Result, first bool, err error)
}

// GuardRequest asks to run a function once.
type GuardRequest struct {
	RunID   string
	Key     string
	Payload []byte // JSON identity of the call; nil: null
	Lease   *fence.Lease
	Owner   string
	TTL     time.Duration
}

// Receipts keeps receipts.
type Receipts interface {
	// ReceiptsOf returns an intent's receipts, oldest first.
	ReceiptsOf(ctx context.Context, k Key) ([]StoredReceipt, error)
	// AllReceipts calls f for every receipt that was issued, in order of issue, until f fails.
	AllReceipts(ctx context.Context, f func(StoredReceipt) error) error
	// ReceiptPage lists issued receipts in order of issue, a page at a time. Zero fields select all; Limit as in [Filter], and more than
	// 1000 is 1000. Pages are stable while receipts are issued: nothing is listed twice, nothing is passed over. One whose transaction
	// commits late may belong before others that are there already, so those are listed on the last page only, as far as it has
	// room, and no cursor points past them. Whoever follows the list keeps the last cursor that was not empty, begins with it the next time, and
	// skips the ids that it has: it misses none.
	ReceiptPage(ctx context.Context, f ReceiptFilter) ([]StoredReceipt, Cursor, error)
	// Receipt returns one receipt by its id; one that is owed by the id of its row, which it has until it is paid. [ErrNoReceipt].
	Receipt(ctx context.Context, id string) (StoredReceipt, error)
	// PayReceipts signs up to limit owed receipts and returns how many were paid and how many are owed still.
	PayReceipts(ctx context.Context, limit int) (paid, owed int, err error)
}

// ReceiptFilter selects issued receipts.
type ReceiptFilter struct {
	RunID string
	Limit int
	After Cursor
}

// StoredReceipt is a row of receipts.
type StoredReceipt struct {
	ID       string // of the receipt; the row's own id while it is owed
	Key      Key
	Outcome  receipt.Outcome
	IssuedAt time.Time
	Digest   string
	Envelope []byte // DSSE envelope; nil while owed
	Owed     bool
	Reason   string // why it is owed
}
