package ledger

import (
	"context"
	"strings"
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
	// FenceTerm is the longest fence_ttl that an engine ran with before, where a channel was configured with a longer one then than it is
	// now. An absence counts only when that, or the channel's own, and the settle time are over.
	FenceTerm time.Duration
}

// maxEpochTerm bounds Horizon and FenceTerm: ten years.
const maxEpochTerm = 10 * 366 * 24 * time.Hour

// Check says what is wrong with the request: an [*InvalidError] that names the field.
func (o OpenEpoch) Check() error {
	switch {
	case strings.TrimSpace(o.By) == "":
		return invalid("by", "is empty; say who opens the epoch")
	case strings.TrimSpace(o.Reason) == "":
		return invalid("reason", "is empty; say why: which backup was restored, and when")
	case o.From < 1:
		return invalid("from", "is %d; name the present epoch, as it was shown", o.From)
	case o.Horizon < 0 || o.Horizon > maxEpochTerm:
		return invalid("horizon", "is %s; give the longest time over which callers retry, or 0", o.Horizon)
	case o.FenceTerm < 0 || o.FenceTerm > maxEpochTerm:
		return invalid("fence_term", "is %s; give the longest fence_ttl that was configured, or 0", o.FenceTerm)
	}
	return nil
}

// Bounded returns the request with texts that every backend can hold.
func (o OpenEpoch) Bounded() OpenEpoch {
	o.By, o.Reason = bounded(o.By), bounded(o.Reason)
	return o
}

// EpochRow is a row of ledger_epochs.
type EpochRow struct {
	LedgerID   string
	Epoch      int64
	OpenedAt   time.Time
	Horizon    time.Duration
	FenceTerm  time.Duration
	By, Reason string
}
