package pawlclient

import (
	"encoding/json"
	"time"
)

// Key is the identity of an intent.
type Key struct {
	RunID     string `json:"run_id" format:"uuid" doc:"UUID of the run that owns the effect"`
	EffectKey string `json:"effect_key" maxLength:"640" doc:"Identity of the effect within its run, kind:…" example:"mail:confirm-7"`
}

// States of an intent.
const (
	StateIntent     = "intent"
	StateDispatched = "dispatched"
	StateCommitted  = "committed"
	StateAbandoned  = "abandoned"
)

// Intent is an effect that is wanted, and what became of it. Times are on the ledger's clock; those that have not come are left out.
type Intent struct {
	Key
	Channel       string `json:"channel"`
	Kind          string `json:"kind"`
	State         string `json:"state" enum:"intent,dispatched,committed,abandoned"`
	Outcome       string `json:"outcome" doc:"In words; \"do not retry\" means that"`
	PayloadDigest string `json:"payload_digest" doc:"Bare SHA-256 of the payload's canonical form"`
	Lane          string `json:"lane,omitempty"`
	RedriveOf     string `json:"redrive_of,omitempty" doc:"Effect key of the abandoned intent that this one was claimed again for"`
	RedrivenAs    string `json:"redriven_as,omitempty" doc:"Effect key of the intent that was claimed again for this one"`

	FenceNumber int64  `json:"fence_number" doc:"What resolve wants as number"`
	FenceOwner  string `json:"fence_owner,omitempty"`
	LedgerEpoch int64  `json:"ledger_epoch"`

	Starts             int   `json:"starts"`
	Attempts           int   `json:"attempts"`
	Probes             int   `json:"probes"`
	MayHaveTakenEffect bool  `json:"may_have_taken_effect"`
	DoubtfulAttempts   []int `json:"doubtful_attempts,omitempty"`

	CreatedAt        time.Time `json:"created_at"`
	DueAt            time.Time `json:"due_at,omitzero"`
	ExpiresAt        time.Time `json:"expires_at,omitzero"`
	FirstSentAt      time.Time `json:"first_sent_at,omitzero"`
	LastPossibleSend time.Time `json:"last_possible_send,omitzero"`
	AcceptedAt       time.Time `json:"accepted_at,omitzero"`
	HeldAt           time.Time `json:"held_at,omitzero"`
	NextLookAt       time.Time `json:"next_look_at,omitzero"`
	EndedAt          time.Time `json:"ended_at,omitzero"`
	PrunedAt         time.Time `json:"pruned_at,omitzero" doc:"Payload, tokens and log were removed then"`

	HoldReason    string          `json:"hold_reason,omitempty"`
	AbandonedAs   string          `json:"abandoned_as,omitempty" doc:"never_sent, refused, failed_outside or unknown"`
	AbandonReason string          `json:"abandon_reason,omitempty"`
	CancelReason  string          `json:"cancel_reason,omitempty"`
	LastError     string          `json:"last_error,omitempty"`
	Established   string          `json:"established,omitempty" doc:"How the outcome became known: send, probe, person or late"`
	By            string          `json:"by,omitempty" doc:"The person who decided"`
	Evidence      json.RawMessage `json:"evidence,omitempty"`
	LateEvidence  json.RawMessage `json:"late_evidence,omitempty"`
	Approval      *Approval       `json:"approval,omitempty"`
	TraceParent   string          `json:"trace_parent,omitempty" doc:"W3C trace context of the claim"`
}

// Ended reports whether nothing more will happen by itself soon: the intent is committed, abandoned or held for a person.
func (i Intent) Ended() bool {
	return i.State == StateCommitted || i.State == StateAbandoned || !i.HeldAt.IsZero()
}

// Approval says that somebody approved the effect elsewhere. Pawl checks it and never makes one.
type Approval struct {
	By        string    `json:"by"`
	Reference string    `json:"reference"`
	Until     time.Time `json:"until"`
	Digest    string    `json:"digest" doc:"Bare digest of {channel, effectKey, payloadDigest}"`
	Count     int       `json:"count,omitempty" doc:"How many intents it serves; 0 or 1: one"`
}

// Detail is an intent with all that is known of it.
type Detail struct {
	Intent   Intent          `json:"intent"`
	Payload  json.RawMessage `json:"payload,omitempty" doc:"Only where it was asked for: it may hold personal data"`
	Tokens   []Token         `json:"tokens"`
	Log      []LogEntry      `json:"log" doc:"What happened, oldest first: attempts, findings, decisions"`
	Late     []LateEvidence  `json:"late_evidence"`
	Receipts []Receipt       `json:"receipts"`
}

// Token is a token without its bytes, which may hold personal or signed content.
type Token struct {
	Version int       `json:"version"`
	Digest  string    `json:"digest"`
	Bytes   int       `json:"bytes"`
	MadeAt  time.Time `json:"made_at,omitzero"`
	Dead    bool      `json:"dead"`
}

// LogEntry is a row of the dispatch log.
type LogEntry struct {
	At      time.Time       `json:"at"`
	Outcome string          `json:"outcome"`
	Attempt int             `json:"attempt"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// LateEvidence is what a worker knew whose fence was gone.
type LateEvidence struct {
	At       time.Time       `json:"at"`
	Outcome  string          `json:"outcome"`
	Attempt  int             `json:"attempt"`
	Fence    string          `json:"fence"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// IntentFilter selects intents. Zero fields select all.
type IntentFilter struct {
	RunID   string
	Channel string
	State   string
	Held    bool
	Limit   int // 0: 100; at most 1000
	After   string
}

// IntentPage is a page of intents, newest claim first.
type IntentPage struct {
	Intents []Intent `json:"intents"`
	Next    string   `json:"next,omitempty" doc:"Give it as after for the next page"`
}
