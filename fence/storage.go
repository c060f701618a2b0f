package fence

import (
	"context"
	"time"
)

// NewRun describes a run to create.
type NewRun struct {
	// ID is a UUID. Empty: from IdempotencyKey where that is a deterministic resource id, else random.
	ID string
	// IdempotencyKey makes the run unique; empty for none. Creating it again returns the run that exists.
	IdempotencyKey string
}

// AcquireOptions bound a lease.
type AcquireOptions struct {
	Owner string
	TTL   time.Duration // must be positive
	// ClockAllowance: a lease of another owner is reclaimed only when it expired by more. Default DefaultClockAllowance.
	ClockAllowance time.Duration
	// ReclaimCeiling is how often a run may be reclaimed from a dead holder before it is quarantined. 0: 5.
	ReclaimCeiling int
}

// Storage keeps runs and their leases. Every expiry is decided on the storage's own clock, read per statement. All
// methods are safe for concurrent use.
type Storage interface {
	Verifier
	// CreateRun inserts a run in state ready, or returns the existing one with the same id or idempotency key.
	CreateRun(ctx context.Context, run NewRun) (r Run, created bool, err error)
	// Run returns one run; [ErrNoRun] if there is none.
	Run(ctx context.Context, runID string) (Run, error)
	// Acquire takes the lease of a run that is ready, or whose lease is dead (a reclaim; counted). The number grows with
	// every acquire. [ErrHeld], [ErrEnded], [ErrNoRun], [ErrQuarantined] (also when this reclaim passed the ceiling).
	Acquire(ctx context.Context, runID string, o AcquireOptions) (Lease, error)
	// Renew moves the expiry to now + ttl. [ErrLost] if the lease is not held under this number, or has expired.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)
	// Release ends the lease: status becomes ready, completed, failed or cancelled. [ErrLost] if it is not held.
	Release(ctx context.Context, l Lease, to Status) error
	// CancelRun ends a run whoever holds it, and cancels its unsent intents in the same transaction.
	CancelRun(ctx context.Context, runID, by, reason string) error
	// ReclaimDead sets ready (or quarantined, past the ceiling) up to limit runs whose lease is dead, or whose
	// owner's heartbeat is older than heartbeatTimeout, and returns them.
	ReclaimDead(ctx context.Context, o ReclaimOptions) ([]Run, error)
	// Heartbeat records that the instance is alive, on the storage's clock.
	Heartbeat(ctx context.Context, i Instance) error
	// Instances returns all instances that were ever seen and not pruned.
	Instances(ctx context.Context) ([]Instance, error)
}

// ReclaimOptions bound a reclaim.
type ReclaimOptions struct {
	ClockAllowance   time.Duration // default DefaultClockAllowance
	HeartbeatTimeout time.Duration // 0: expiry alone decides
	ReclaimCeiling   int           // 0: 5
	Limit            int           // 0: 100
}

// Instance is one engine process.
type Instance struct {
	ID        string // unique per process start, never reused
	Host      string
	Process   int
	Version   string
	StartedAt time.Time
	LastSeen  time.Time     // on the storage's clock
	Age       time.Duration // time since LastSeen, on the storage's clock, when it was read
	StoppedAt time.Time     // set by a graceful stop
}

// Verifier says whether a lease is held. A host with a lease table of its own implements it.
type Verifier interface {
	// VerifyLease returns nil if the lease is held under its number and has not expired, [ErrLost] otherwise.
	VerifyLease(ctx context.Context, l Lease) error
}
