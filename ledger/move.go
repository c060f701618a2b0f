package ledger

import (
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

// Move is one move of an intent: [Fence], [PutToken], [Stamp], [Commit], [Accept], [Ambiguous], [Reopen], [Abandon], [Hold],
// [ProbeFence], [Probed], [RequestCancel], [Resolve], [Late]. The set is closed.
type Move interface {
	apply(s *Snapshot, c *Change) error
	name() string
}

// Established says how it became known that an effect took place.
type Established = receipt.Established

const (
	BySend   = receipt.BySend
	ByProbe  = receipt.ByProbe
	ByPerson = receipt.ByPerson
	ByLate   = receipt.ByLate
)

// Proof says why a dispatched intent may be sent again.
type Proof string

const (
	// ProofNoStamp: there is no stamp under the current fence.
	ProofNoStamp Proof = "no_stamp"
	// ProofNotSent: the channel's typed not sent, for the stamped attempt.
	ProofNotSent Proof = "not_sent"
	// ProofAbsentForGood: a probe's absent for good, for all token versions.
	ProofAbsentForGood Proof = "absent_for_good"
	// ProofReplaySafe: the same stored bytes may go again; doubt is kept.
	ProofReplaySafe Proof = "replay_safe"
	// ProofResend: the channel's policy accepts duplicates; doubt is kept.
	ProofResend Proof = "resend"
	// ProofPerson: a person with name and reason.
	ProofPerson Proof = "person"
)

// Fence takes ownership for one dispatch: intent → dispatched. The backends make it for a batch in [Ledger.Fence].
type Fence struct {
	Owner          string
	TTL            time.Duration
	StartCeiling   int // 0: none
	AttemptCeiling int // 0: none
	// ApprovalRequired refuses an intent without an approval that is still good.
	ApprovalRequired bool
}

// PutToken stores a token version. If that version exists already, the stored one wins: see Result.Token.
type PutToken struct {
	Fence fence.Fence
	Token channel.Token
	// DrawsFromLane says that Token.LaneNumber raises the lane's number.
	DrawsFromLane bool
	// NotSent says that the stamped attempt is typed as not sent: the adapter wants a further version instead.
	NotSent bool
}

// Stamp is written right before the one external call. It checks that what is left of the fence covers the send.
type Stamp struct {
	Fence fence.Fence
	// Token, where it is not nil, is stored in the same statement, as PutToken would.
	Token         *channel.Token
	DrawsFromLane bool
	Sheet         channel.Sheet
	// SendTimeout, CommitBound and Margin must fit into what is left of the fence.
	SendTimeout, CommitBound, Margin time.Duration
}

// Commit writes the evidence: dispatched → committed.
type Commit struct {
	Fence       fence.Fence
	Evidence    channel.Evidence
	Established Established // BySend or ByProbe
	Detail      string      // for the log
}

// Accept keeps the evidence so far: the outside system has it, but it is not final.
type Accept struct {
	Fence     fence.Fence
	Evidence  channel.Evidence
	LookAgain time.Duration
}

// Ambiguous records that the send of the stamped attempt ended without a typed answer. The stamp stays, the fence is given
// back: the reconciler may look at once; an absence still waits for the last possible send and the settle time.
type Ambiguous struct {
	Fence  fence.Fence
	Look   time.Duration // until the first look
	Reason string
}

// Reopen lets the intent be sent again: dispatched → intent.
type Reopen struct {
	Fence fence.Fence
	Proof Proof
	// ProbeBegan is, for ProofAbsentForGood, when the probe began, on the database's clock (a Result.Now that was read
	// before it). TokenDead says that the probe proved the tokens dead by itself.
	ProbeBegan     time.Time
	TokenDead      bool
	ClockAllowance time.Duration
	Margin         time.Duration // for ProofReplaySafe: of the token's life
	After          time.Duration // wait before the next dispatch
	Error          string        // what went wrong, for a person
	// Policy says that the operator configured resend; ProofResend needs it.
	Policy bool
}

// Abandon ends an intent without a commit: dispatched → abandoned.
type Abandon struct {
	Fence    fence.Fence
	As       AbandonedAs
	Reason   string
	Evidence channel.Evidence // for FailedOutside
	// NotSent says that the stamped attempt is typed as not sent or rejected.
	NotSent bool
	// Policy says that the operator configured abandon; Unknown needs it.
	Policy bool
}

// Hold leaves the intent for a person; it is still probed, ever more rarely.
type Hold struct {
	Fence  fence.Fence
	Reason string
	Look   time.Duration // until the next look
	// FreeLane lets the lane go on (the lane policy skip).
	FreeLane bool
}

// ProbeFence takes a dispatched intent whose fence is dead, that is held, or that is accepted, for probing: a new number;
// stamp, tokens and last possible send are kept.
type ProbeFence struct {
	Owner          string
	TTL            time.Duration
	ClockAllowance time.Duration
	// HeartbeatTimeout: an owner not seen for longer counts as dead, where that cannot lead to a false absence. 0: never.
	HeartbeatTimeout time.Duration
	// Number is the fence number that a person was shown; 0: any.
	Number int64
	// Person takes the row even if its fence is alive but is a probing fence or held.
	Person bool
	// Sheet and FenceTerm, the longest fence that the channel's policy gives, count for an intent of an earlier life of the ledger: what was
	// stored of them when it was stamped may be lost.
	Sheet     channel.Sheet
	FenceTerm time.Duration
}

// Probed records a probe that settled nothing and gives the fence back.
type Probed struct {
	Fence      fence.Fence
	Finding    channel.FindingKind // unknown, absent now, or accepted
	Evidence   channel.Evidence    // for accepted
	ProbeBegan time.Time
	Look       time.Duration // until the next look
	Reason     string
	// NotAsked says that the outside system could not be asked: the fence is given back, and nothing counts.
	NotAsked bool
}

// RequestCancel asks for the end of an intent. Without doubt and unsent it is abandoned at once; else sending stops and
// the outcome is found out first.
type RequestCancel struct {
	By, Reason string
}

// Decision is what a person resolves an intent as.
type Decision string

const (
	DecideSent    Decision = "sent"    // it took effect: committed, evidence id empty
	DecideNotSent Decision = "notsent" // it did not and will not: abandoned as never sent
	DecideRetry   Decision = "retry"   // it did not and will not: back to intent
	DecideUnknown Decision = "unknown" // nobody will know: abandoned as unknown
)

// Resolve is a person's decision, under a probing fence that the person took.
type Resolve struct {
	Fence      fence.Fence
	As         Decision
	By, Reason string
}

// Late hands in what a worker knows whose fence is gone. It never fails for want of a row.
type Late struct {
	Key      Key
	Fence    fence.Fence
	Attempt  int
	Outcome  LateOutcome
	Evidence channel.Evidence
	Reason   string
}

// LateOutcome is what late evidence says.
type LateOutcome string

const (
	LateSent    LateOutcome = "sent"
	LateNotSent LateOutcome = "not_sent"
)

// LateEvidence is a row of late_evidence.
type LateEvidence struct {
	ID       string // UUIDv7
	Key      Key
	Fence    fence.Fence
	Attempt  int
	Outcome  LateOutcome
	Evidence json.RawMessage
	Reason   string
	At       time.Time
}
