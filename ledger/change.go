package ledger

import (
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

// Snapshot is what a backend read of an intent while it held the row's lock.
type Snapshot struct {
	Key      Key
	Found    bool
	Intent   Intent
	Tokens   []channel.Token // oldest first
	Late     []LateEvidence  // unused, oldest first
	Now      time.Time       // the database's clock, read after the lock was taken
	LedgerID string
	Epoch    int64 // the ledger's epoch now
	// Opened is when that epoch was opened; zero for the first one. FenceTerm is the longest fence that the life before it gave out, as
	// far as whoever opened it said; claims made until Horizon after the opening may have existed before.
	Opened             time.Time
	Horizon, FenceTerm time.Duration
	// Paused is set unless the channel's flag is on or shadow and it is not paused. Only Fence reads it.
	Paused bool
	// RunCancelled says that the intent's run was cancelled.
	RunCancelled bool
	// OwnerSeen is the last heartbeat of the fence's owner; zero if there is no such instance.
	OwnerSeen time.Time
	// EvidenceTaken is set when the backend asks again because another intent of the channel has the evidence id that
	// the Change wanted (Change.EvidenceID).
	EvidenceTaken bool
}

// Step is one update of the row, conditional on the state and fence number of From.
type Step struct {
	From, To Intent
	Proof    Proof // written with the row; the database refuses a reopen of a stamped row without one
}

// Phase says who looks at a queue row.
type Phase string

const (
	PhaseSend Phase = "send" // the dispatcher, when due (and, in a lane, when its turn has come)
	PhaseLook Phase = "look" // the reconciler, when due
	PhaseDone Phase = ""     // no queue row
)

// Change is what a move does: everything that the backend must write, in one transaction.
type Change struct {
	Steps []Step // in order; empty: the row stays as it is
	// Phase and DueAt are the queue row after the move, valid if Steps is not empty.
	Phase Phase
	DueAt time.Time
	// NewToken is to be inserted. RaiseLane says that it raises lanes.number to NewToken.LaneNumber.
	NewToken  *channel.Token
	RaiseLane bool
	// TokensDead marks every token version as dead.
	TokensDead bool
	// EvidenceID, if not empty, must be unique on the channel: if another intent has it, the backend calls Apply again with
	// Snapshot.EvidenceTaken.
	EvidenceID string
	NewLate    *LateEvidence
	UsedLate   []string // ids of late evidence that has been read
	EndTurn    bool     // the lane moves on to its next position
	Log        []LogEntry
	Receipts   []receipt.Effect // to be signed and stored, or recorded as owed
	Result     Result
}

// Result is what a move tells its caller.
type Result struct {
	Intent Intent // after the move
	Tokens []channel.Token
	Now    time.Time // the database's clock at the move
	// Remaining is what is left until the attempt's not-after (Stamp) or the fence's expiry (Fence, ProbeFence). A
	// caller's own deadline is the moment before it asked, plus Remaining.
	Remaining time.Duration
	// FenceEnded is, for ProbeFence, when the fence before it ended: how long nobody has been at the intent counts from there. Zero
	// if it was given back.
	FenceEnded time.Time
	// Applied is false when something else took precedence and settled the row: late evidence that had arrived, a
	// cancel, an expiry. The caller reads Intent and goes no further.
	Applied bool
	// FirstPossible is, for ProbeFence, the earliest time at which the effect may have been made: what a probe must be able to look back
	// to. Zero if it was never sent.
	FirstPossible time.Time
	// Token is, for PutToken and Stamp, the version that is stored.
	Token channel.Token
	Alarm string // set when late evidence reached a terminal row
}

// LogEntry is a row of outbox_dispatch_log.
type LogEntry struct {
	ID      string // UUIDv7, set by the backend
	Key     Key
	Attempt int
	Outcome LogOutcome
	At      time.Time // set by the backend to Snapshot.Now
	Detail  json.RawMessage
}

// LogOutcome is what happened.
type LogOutcome string

const (
	LogDeduped       LogOutcome = "deduped"
	LogFenced        LogOutcome = "fenced"
	LogSent          LogOutcome = "sent"
	LogAccepted      LogOutcome = "accepted"
	LogNotSent       LogOutcome = "not_sent"
	LogRejected      LogOutcome = "rejected"
	LogFailedOutside LogOutcome = "failed_outside"
	LogAmbiguous     LogOutcome = "ambiguous"
	LogFound         LogOutcome = "found"
	LogAbsentNow     LogOutcome = "absent_now"
	LogAbsentForGood LogOutcome = "absent_for_good"
	LogUnknown       LogOutcome = "unknown"
	LogReconciled    LogOutcome = "reconciled"
	LogReopened      LogOutcome = "reopened"
	LogHeld          LogOutcome = "held"
	LogResolved      LogOutcome = "resolved"
	LogAbandoned     LogOutcome = "abandoned"
	LogLate          LogOutcome = "late"
	LogRedriven      LogOutcome = "redriven"
)

// Detail of a log entry. Only what is set is written.
type logDetail struct {
	Fence      string          `json:"fence,omitempty"`
	Proof      Proof           `json:"proof,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"`
	As         string          `json:"as,omitempty"`
	Of         string          `json:"of,omitempty"`
	ProbeBegan string          `json:"probe_began,omitempty"`
	Evidence   json.RawMessage `json:"evidence,omitempty"`
}

func (c *Change) log(i Intent, outcome LogOutcome, d logDetail) {
	if d.Fence == "" && i.FenceNumber > 0 {
		d.Fence = fence.Fence{Epoch: i.LedgerEpoch, Number: i.FenceNumber, Owner: i.FenceOwner}.String()
	}
	d.Reason = bounded(d.Reason)
	raw, err := json.Marshal(d)
	if err != nil { // a struct of strings and validated JSON cannot fail; evidence never blocks a move
		raw = nil
	}
	c.Log = append(c.Log, LogEntry{Key: i.Key, Attempt: i.Attempts, Outcome: outcome, Detail: raw})
}
