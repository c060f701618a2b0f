package pawlclient

import "time"

// NewRun asks for a run.
type NewRun struct {
	ID             string `json:"id,omitempty" format:"uuid" doc:"Left out: from idempotency_key where that is a deterministic resource id, else random"`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"512" doc:"Makes the run unique: asking again returns the one that exists"`
}

// Run is a unit of work that owns effects.
type Run struct {
	ID             string    `json:"id"`
	Status         string    `json:"status" enum:"ready,leased,running,completed,failed,cancelled,quarantined"`
	Owner          string    `json:"owner,omitempty"`
	Number         int64     `json:"number" doc:"Of its lease; grows with every acquire"`
	ExpiresAt      time.Time `json:"expires_at,omitzero"`
	Retries        int       `json:"retries" doc:"How often it was reclaimed from a dead holder"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Lease is the fence of a run. Its holder's own deadline is the moment before it asked, plus Remaining.
type Lease struct {
	RunID     string    `json:"run_id" format:"uuid"`
	Epoch     int64     `json:"epoch"`
	Number    int64     `json:"number"`
	Owner     string    `json:"owner" maxLength:"200"`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"On the ledger's clock"`
	Remaining float64   `json:"remaining_seconds,omitempty" doc:"What was left when it was read"`
}

// AcquireLease asks for a run's lease.
type AcquireLease struct {
	Owner          string  `json:"owner" minLength:"1" maxLength:"200"`
	TTL            float64 `json:"ttl_seconds" minimum:"0.1" maximum:"86400"`
	ReclaimCeiling int     `json:"reclaim_ceiling,omitempty" minimum:"0" doc:"How often the run may be reclaimed from a dead holder before it is quarantined; 0: 5"`
}

// RenewLease moves a lease's expiry.
type RenewLease struct {
	Lease Lease   `json:"lease"`
	TTL   float64 `json:"ttl_seconds" minimum:"0.1" maximum:"86400"`
}

// ReleaseLease ends a lease.
type ReleaseLease struct {
	Lease Lease  `json:"lease"`
	To    string `json:"to" enum:"ready,completed,failed,cancelled"`
}
