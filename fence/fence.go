package fence

import (
	"errors"
	"fmt"
	"time"
)

// DefaultClockAllowance is how long past its expiry a fence is still treated as possibly alive. It covers what clocks
// of two connections to one database may differ by.
const DefaultClockAllowance = 5 * time.Second

// Fence names the ownership of one dispatch or one probing: every write of its holder carries it.
type Fence struct {
	Epoch  int64  // the ledger's epoch in which it was taken
	Number int64  // only grows, per intent or run
	Owner  string // instance that holds it
}

func (f Fence) String() string { return fmt.Sprintf("%d.%d by %s", f.Epoch, f.Number, f.Owner) }

// Lease is the fence of a run.
type Lease struct {
	RunID     string
	Fence     Fence
	ExpiresAt time.Time // on the database's clock
	// Remaining is what was left of the lease, on the database's clock, when it was read. A holder's own deadline is the
	// moment *before* it asked, plus Remaining.
	Remaining time.Duration
}

// Status is the state of a run.
type Status string

const (
	StatusReady       Status = "ready"
	StatusLeased      Status = "leased"
	StatusRunning     Status = "running"
	StatusCompleted   Status = "completed"
	StatusFailed      Status = "failed"
	StatusCancelled   Status = "cancelled"
	StatusQuarantined Status = "quarantined"
)

// Terminal reports whether no worker may take the run any more.
func (s Status) Terminal() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusCancelled, StatusQuarantined:
		return true
	}
	return false
}

// Run is a row of agent_runs.
type Run struct {
	ID             string
	Status         Status
	Owner          string
	Number         int64 // lease_epoch: grows with every acquire
	ExpiresAt      time.Time
	Retries        int // how often it was reclaimed from a dead holder
	IdempotencyKey string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

var (
	// ErrLost says that the lease or fence is not the caller's any more. What the caller knows is late.
	ErrLost = errors.New("the lease is lost: another worker has it, or it ended; stop, and write nothing more under it")
	// ErrHeld says that somebody else holds a live lease.
	ErrHeld = errors.New("the run is leased by another worker; try again after it ends")
	// ErrNoRun says that there is no such run.
	ErrNoRun = errors.New("there is no such run; create it first")
	// ErrQuarantined says that the run was reclaimed too often and waits for a person.
	ErrQuarantined = errors.New("the run is quarantined: its workers died too often; a person must look and set it ready")
	// ErrEnded says that the run is over.
	ErrEnded = errors.New("the run has ended")
)
