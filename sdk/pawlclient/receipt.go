package pawlclient

import (
	"encoding/json"
	"time"
)

// Receipt is a receipt, or one that is owed still.
type Receipt struct {
	Key
	ID       string          `json:"id"`
	Outcome  string          `json:"outcome"`
	IssuedAt time.Time       `json:"issued_at,omitzero"`
	Digest   string          `json:"digest,omitempty"`
	Owed     bool            `json:"owed"`
	Reason   string          `json:"reason,omitempty" doc:"Why it is owed"`
	Envelope json.RawMessage `json:"envelope,omitempty" doc:"The signed DSSE envelope, as any verifier takes it"`
}

// ReceiptFilter selects issued receipts. Zero fields select all.
type ReceiptFilter struct {
	RunID string
	Limit int // 0: 100; at most 1000
	After string
}

// ReceiptPage is a page of issued receipts, in order of issue.
type ReceiptPage struct {
	Receipts []Receipt `json:"receipts"`
	Next     string    `json:"next,omitempty"`
}

// Verdict says whether a receipt is good.
type Verdict struct {
	OK     bool            `json:"ok"`
	Failed string          `json:"failed,omitempty" doc:"The first check that failed"`
	Claims json.RawMessage `json:"claims,omitempty" doc:"What the receipt says"`
	Checks []Check         `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// PublicKey verifies the ledger's receipts. Whoever must not trust the server takes it from elsewhere.
type PublicKey struct {
	PEM    string `json:"pem"`
	KeyID  string `json:"key_id"`
	Issuer string `json:"issuer"`
}
