package pawlclient

import (
	"encoding/json"
	"time"
)

// Channel is a channel as the ledger knows it, with what the answering replica sees of its adapter.
type Channel struct {
	Name             string          `json:"name"`
	Kind             string          `json:"kind"`
	Flag             string          `json:"flag" enum:"on,off,paused,shadow"`
	Paused           bool            `json:"paused"`
	PauseReason      string          `json:"pause_reason,omitempty"`
	ApprovalRequired bool            `json:"approval_required"`
	RatePerMinute    int             `json:"rate_per_minute,omitempty"`
	Replay           string          `json:"replay"`
	Probe            string          `json:"probe"`
	Sheet            json.RawMessage `json:"sheet,omitempty" doc:"The capability sheet that counts"`
	UpdatedAt        time.Time       `json:"updated_at,omitzero"`
	Waiting          int             `json:"waiting"`
	Dispatched       int             `json:"dispatched"`
	Accepted         int             `json:"accepted"`
	Held             int             `json:"held"`
	OldestWaiting    float64         `json:"oldest_waiting_seconds"`
	OldestUnknown    float64         `json:"oldest_unknown_seconds" doc:"Of held intents"`
	Health           *ChannelHealth  `json:"health,omitempty" doc:"Left out where the answering process runs no engine, or not this channel"`
}

// ChannelHealth is what one replica sees of a channel's adapter.
type ChannelHealth struct {
	Instance string `json:"instance"`
	Ready    bool   `json:"ready"`
	Reason   string `json:"reason,omitempty" doc:"Why it is not ready"`
	InFlight int    `json:"in_flight"`
	Restarts int64  `json:"restarts" doc:"How often the adapter was started again since the engine started"`
}

// Stats count. Durations are in seconds.
type Stats struct {
	Waiting       int     `json:"waiting"`
	Dispatched    int     `json:"dispatched" doc:"Under way or to be found out; not held, not accepted"`
	Accepted      int     `json:"accepted"`
	Held          int     `json:"held"`
	Committed     int     `json:"committed"`
	Abandoned     int     `json:"abandoned"`
	OldestWaiting float64 `json:"oldest_waiting_seconds"`
	OldestUnknown float64 `json:"oldest_unknown_seconds"`
	OwedReceipts  int     `json:"owed_receipts"`
}

// Engine is an engine process that the ledger has seen.
type Engine struct {
	Instance  string    `json:"instance"`
	Host      string    `json:"host"`
	Process   int       `json:"process"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	LastSeen  time.Time `json:"last_seen"`
	Age       float64   `json:"age_seconds" doc:"Since it was last seen, on the ledger's clock"`
	Stopped   bool      `json:"stopped"`
}

// Epoch is a life of the ledger.
type Epoch struct {
	LedgerID string    `json:"ledger_id"`
	Epoch    int64     `json:"epoch"`
	OpenedAt time.Time `json:"opened_at"`
	Horizon  float64   `json:"horizon_seconds" doc:"So long after the opening a new claim counts as one that may have existed"`
	By       string    `json:"by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// OpenEpoch begins a new life of the ledger, after it was restored to an older state.
type OpenEpoch struct {
	By      string  `json:"by,omitempty" maxLength:"200"`
	Reason  string  `json:"reason" minLength:"1" maxLength:"2000"`
	From    int64   `json:"from" minimum:"1" doc:"The epoch that was shown; another present one refuses"`
	Horizon float64 `json:"horizon_seconds" minimum:"0" doc:"The longest time over which callers retry or redeliver"`
}

// Prune removes payload, tokens and log of intents that ended long ago. Run, key, digest, state and external id stay.
type Prune struct {
	OlderThan float64 `json:"older_than_seconds" minimum:"86400" doc:"Since the intent ended; at least one day"`
	DryRun    bool    `json:"dry_run,omitempty"`
	By        string  `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
}

// Pruned says what was removed, or would be.
type Pruned struct {
	Intents   int  `json:"intents"`
	Tokens    int  `json:"tokens"`
	LogRows   int  `json:"log_rows"`
	Instances int  `json:"instances"`
	DryRun    bool `json:"dry_run"`
}

// Scopes of an API token.
const (
	ScopeClaim   = "claim"   // claim effects; runs and leases
	ScopeRead    = "read"    // read everything but payloads, tokens and the audit trail
	ScopeOperate = "operate" // cancel, resolve, redrive, pause, flag; read payloads
	ScopeAdmin   = "admin"   // all of these; tokens, audit, epoch, prune
)

// APIToken is a token of the API without its secret, which is shown once.
type APIToken struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Scopes    []string  `json:"scopes"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// NewAPIToken asks for one.
type NewAPIToken struct {
	Name      string    `json:"name" minLength:"1" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._@-]*$"`
	Scopes    []string  `json:"scopes" minItems:"1" enum:"claim,read,operate,admin"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	By        string    `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
}

// IssuedAPIToken is a new token with its secret: the only time that it is shown.
type IssuedAPIToken struct {
	APIToken
	Secret string `json:"secret"`
}

// AuditEntry is a row of the audit trail: who asked for what, and what came of it.
type AuditEntry struct {
	ID      string          `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor" doc:"The person or token"`
	TokenID string          `json:"token_id,omitempty"`
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	Result  string          `json:"result" doc:"asked, done or refused"`
}

// AuditPage is a page of the audit trail, newest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}
