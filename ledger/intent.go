package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/receipt"
)

// ChannelLocal is the built-in channel of plain Go effects ([Ledger.RecordOnce], core's Guard). No dispatcher takes it.
const ChannelLocal = "local"

// RecordOwner holds the fence of what [Ledger.RecordOnce] inserted: no instance, so nobody's heartbeat ends it early.
const RecordOwner = "caller"

// ShadowPrefix stands before the effect key of an intent that was claimed while its channel was in shadow, so that the
// real key can still fire.
const ShadowPrefix = "shadow:"

// Key is the identity of an intent: the primary key of effect_intents.
type Key struct {
	RunID     string // UUID, lower case
	EffectKey string
}

func (k Key) String() string { return k.RunID + " " + k.EffectKey }

// State is where an intent is.
type State string

const (
	StateIntent     State = "intent"
	StateDispatched State = "dispatched"
	StateCommitted  State = "committed"
	StateAbandoned  State = "abandoned"
)

// Terminal reports whether the state never changes again.
func (s State) Terminal() bool { return s == StateCommitted || s == StateAbandoned }

// AbandonedAs says which end an abandoned intent came to.
type AbandonedAs = receipt.AbandonedAs

const (
	NeverSent     = receipt.NeverSent     // proven
	Refused       = receipt.Refused       // the outside system will never take it
	FailedOutside = receipt.FailedOutside // it happened and failed for good
	Unknown       = receipt.Unknown       // nobody knows; do not retry
)

// Intent is a row of effect_intents. Zero times are NULL. All times are on the database's clock.
type Intent struct {
	Key
	RunNumber int64 // run_epoch: the number of the run's lease that it was claimed under; 0 for a run without a lease
	State     State
	Kind      string
	Channel   string

	Payload       []byte
	PayloadDigest string // bare hex
	Lane          string
	LanePosition  int64 // place in the lane, from 1; 0 without a lane
	LaneTurnEnded bool  // the lane has moved past it
	Approval      *Approval
	DueAt         time.Time
	ExpiresAt     time.Time
	CreatedAt     time.Time
	TraceParent   string    // W3C trace context of the claim; empty: none
	PrunedAt      time.Time // payload, tokens and log were removed then; zero: they are there

	FenceOwner     string
	FenceNumber    int64 // fence_epoch: only grows
	FenceExpiresAt time.Time
	LedgerEpoch    int64 // of the fence
	Probing        bool  // the fence is a probing fence: no send
	ProbeFirst     bool  // an earlier life of the ledger may have sent it: probe before any send

	Starts           int // fencings that could send; only grows
	Attempts         int // stamped tries; only grows
	SendStartedAt    time.Time
	FirstSentAt      time.Time
	LastPossibleSend time.Time
	Doubts           []int // attempts that may have taken effect, before the stamped one; 0: of an earlier life of the ledger. may_have_taken_effect = not empty
	Sheet            StampedSheet

	Evidence    json.RawMessage // external_ref: encoded by EncodeEvidence
	AcceptedAt  time.Time
	ProbeAt     time.Time // the next look
	Probes      int
	Unknowns    int // probes in a row that were unknown
	AbsentSince time.Time
	HeldAt      time.Time
	HoldReason  string

	CancelRequestedAt time.Time
	CancelReason      string
	LastError         string

	AbandonedAs   AbandonedAs
	AbandonReason string
	LateEvidence  json.RawMessage // late_ref: filled once, on a terminal row
	CommittedAt   time.Time       // when it became terminal
	Established   Established
	By            string // the person who decided, or who let a waiting intent go again; empty for the engine
}

// Fence returns the row's current fence.
func (i Intent) Fence() fence.Fence {
	return fence.Fence{Epoch: i.LedgerEpoch, Number: i.FenceNumber, Owner: i.FenceOwner}
}

// Stamped reports whether the current fence carries a stamp.
func (i Intent) Stamped() bool { return !i.SendStartedAt.IsZero() }

// InDoubt reports whether the effect may be there: any attempt, the stamped one included, may have taken effect, the outside
// system has accepted it, or the ledger was restored and nobody has looked since.
func (i Intent) InDoubt() bool {
	return i.Stamped() || len(i.Doubts) > 0 || i.Accepted() || i.ProbeFirst
}

// Held reports whether the row waits for a person (and is still probed).
func (i Intent) Held() bool { return !i.HeldAt.IsZero() }

// Accepted reports whether the outside system has it but it is not final.
func (i Intent) Accepted() bool { return !i.AcceptedAt.IsZero() }

// Shadow reports whether the intent was claimed in shadow and must never be sent.
func (i Intent) Shadow() bool { return strings.HasPrefix(i.EffectKey, ShadowPrefix) }

// ForChannel is what an adapter is told of the intent.
func (i Intent) ForChannel() channel.Intent {
	return channel.Intent{
		RunID: i.RunID, EffectKey: i.EffectKey, Kind: i.Kind, Channel: i.Channel, Payload: i.Payload,
		PayloadDigest: i.PayloadDigest, Lane: i.Lane, CreatedAt: i.CreatedAt,
	}
}

// Outcome says in words, for people and agents, what became of the intent.
func (i Intent) Outcome() string {
	switch {
	case i.State == StateCommitted:
		return "committed"
	case i.State == StateAbandoned && len(i.LateEvidence) > 0:
		return "abandoned, took effect later"
	case i.State == StateAbandoned && i.AbandonedAs == Unknown:
		return "unknown, do not retry"
	case i.State == StateAbandoned:
		return fmt.Sprintf("abandoned: %s", strings.ReplaceAll(string(i.AbandonedAs), "_", " "))
	case i.Held():
		return "held as unknown, do not retry"
	case i.Accepted():
		return "accepted, not final yet"
	default:
		return "in progress"
	}
}

func (i Intent) clone() Intent {
	i.Doubts = slices.Clone(i.Doubts)
	return i
}

// StampedSheet is what the channel's sheet said when the row was stamped. It stays with the row: later sheets do not
// change what an earlier attempt may have done. Over several attempts the weakest reading is kept.
type StampedSheet struct {
	Replay                 channel.Replay   `json:"replay,omitempty"`
	TokenLife              channel.Duration `json:"token_life,omitempty"`
	SettleTime             channel.Duration `json:"settle_time,omitempty"`
	ProbeHorizon           channel.Duration `json:"probe_horizon,omitempty"`
	Probe                  channel.Strength `json:"probe,omitempty"`
	NegativeProof          bool             `json:"negative_proof,omitempty"`
	AcceptedFreesLane      bool             `json:"accepted_frees_lane,omitempty"`
	EvidenceNamesOneEffect bool             `json:"evidence_names_one_effect,omitempty"`
	// Token and FindsWithoutToken tell, in a new epoch, what a token that was lost means.
	Token             channel.TokenKind `json:"token,omitempty"`
	FindsWithoutToken bool              `json:"finds_without_token,omitempty"`
}

// StampSheet takes from a sheet what stays with a stamped row.
func StampSheet(s channel.Sheet) StampedSheet {
	s = s.Normal()
	return StampedSheet{
		Replay: s.Replay, TokenLife: s.TokenLife, SettleTime: s.SettleTime, ProbeHorizon: s.ProbeHorizon, Probe: s.Probe,
		NegativeProof: s.NegativeProof, AcceptedFreesLane: s.AcceptedFreesLane,
		EvidenceNamesOneEffect: s.EvidenceNamesOneEffect, Token: s.Token, FindsWithoutToken: s.FindsWithoutToken,
	}
}

// weaker merges the sheet of an earlier stamp with that of a new one.
func (s StampedSheet) weaker(earlier StampedSheet) StampedSheet {
	if earlier == (StampedSheet{}) {
		return s
	}
	s.SettleTime = max(s.SettleTime, earlier.SettleTime)
	s.NegativeProof = s.NegativeProof && earlier.NegativeProof
	s.FindsWithoutToken = s.FindsWithoutToken && earlier.FindsWithoutToken
	if earlier.Token != channel.TokenDerived {
		s.Token = channel.TokenAllocated
	}
	switch {
	case s.Replay == channel.ReplayNever || earlier.Replay == channel.ReplayNever:
		s.Replay, s.TokenLife = channel.ReplayNever, 0
	case earlier.Replay == channel.ReplayWithinLife && s.Replay == channel.ReplayForEver:
		s.Replay, s.TokenLife = channel.ReplayWithinLife, earlier.TokenLife
	case earlier.Replay == channel.ReplayWithinLife:
		s.TokenLife = min(s.TokenLife, earlier.TokenLife)
	}
	if earlier.ProbeHorizon > 0 && (s.ProbeHorizon == 0 || earlier.ProbeHorizon < s.ProbeHorizon) {
		s.ProbeHorizon = earlier.ProbeHorizon
	}
	return s
}
