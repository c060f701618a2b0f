package ledger

import (
	"context"
	"time"
)

// Epochs keeps the lives of the ledger.
type Epochs interface {
	// Epochs returns all lives, oldest first.
	Epochs(ctx context.Context) ([]EpochRow, error)
	// OpenEpoch begins a new life, in one transaction: fences of earlier ones match no more, and every intent that has not ended counts
	// as one that may have taken effect: it is probed before it is sent. So does a new claim until the horizon has passed. From is the
	// present epoch as the person was shown it; another one is [ErrNumberMoved].
	OpenEpoch(ctx context.Context, o OpenEpoch) (EpochRow, error)
}

// OpenEpoch asks for a new life of the ledger. By and Reason are required.
type OpenEpoch struct {
	By, Reason string
	From       int64
	Horizon    time.Duration // the longest time over which callers retry or redeliver
}

// EpochRow is a row of ledger_epochs.
type EpochRow struct {
	LedgerID   string
	Epoch      int64
	OpenedAt   time.Time
	Horizon    time.Duration
	By, Reason string
}
