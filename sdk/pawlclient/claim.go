package pawlclient

import (
	"encoding/json"
	"time"
)

// Statuses of a claim.
const (
	ClaimNew          = "new"
	ClaimDeduplicated = "deduplicated"
	ClaimConflict     = "conflict"
)

// Claim asks for an effect.
type Claim struct {
	RunID     string          `json:"run_id" format:"uuid" doc:"UUID of the unit of work that owns the effect"`
	EffectKey string          `json:"effect_key,omitempty" maxLength:"512" doc:"kind:…; names the effect within its run. Left out, it is made from the payload where the kind allows it (mail, file)"`
	Channel   string          `json:"channel" maxLength:"128" example:"mail/shop"`
	Payload   json.RawMessage `json:"payload" doc:"JSON; what the channel's schema asks for"`
	Lane      string          `json:"lane,omitempty" maxLength:"128" doc:"Ordering key: intents of one lane go one at a time, in order"`
	DueAt     time.Time       `json:"due_at,omitzero" doc:"Not sent before"`
	ExpiresAt time.Time       `json:"expires_at,omitzero" doc:"Never sent at or after it"`
	Approval  *Approval       `json:"approval,omitempty"`
	Lease     *Lease          `json:"lease,omitempty" doc:"The run's lease, verified with the claim; needed if the run is leased"`
}

// ClaimResult is the answer to one claim.
type ClaimResult struct {
	Status string `json:"status" enum:"new,deduplicated,conflict"`
	Intent Intent `json:"intent"`
}

// ClaimBatch is the answer to many: all of them are taken, or none.
type ClaimBatch struct {
	Results []ClaimResult `json:"results"`
}

// Cancel asks for the end of an intent.
type Cancel struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
	Reason string `json:"reason" minLength:"1" maxLength:"2000"`
}

// Resolve is a person's decision on an intent that nothing could settle.
type Resolve struct {
	As     string `json:"as" enum:"sent,notsent,retry,unknown"`
	By     string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
	Reason string `json:"reason" minLength:"1" maxLength:"2000"`
	Number int64  `json:"number" minimum:"1" doc:"The fence_number that was shown; if the intent has changed since, nothing is decided"`
}

// Redrive claims an abandoned intent again, linked to it.
type Redrive struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
	Reason string `json:"reason" minLength:"1" maxLength:"2000"`
	// AcceptDuplicates must be "duplicates are acceptable" where nobody knows whether the first one took effect.
	AcceptDuplicates string    `json:"accept_duplicates,omitempty"`
	Approval         *Approval `json:"approval,omitempty"`
}
