package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Intent is what an adapter is told of an intent: enough to make the effect and to find it again.
type Intent struct {
	RunID         string // UUID, lower case
	EffectKey     string // "kind:…", the same at every attempt
	Kind          string // what the adapter speaks: "mail", "file"
	Channel       string // the configured instance: "mail/marketing"
	Payload       []byte // the exact bytes that were claimed
	PayloadDigest string // bare hex SHA-256 of the payload's canonical form
	Lane          string // ordering key; empty for none
	CreatedAt     time.Time
}

// Token is what a channel made before the first send: versioned, stored before the wire is touched.
type Token struct {
	Version int    // 1 for the first
	Data    []byte // the key, or the exact bytes to send
	// Hint helps the probe (a watermark, a mailbox); JSON or empty. The engine stores it and never reads it.
	Hint json.RawMessage
	// Life is how long after the first stamp the outside system honours the token. 0: for ever.
	Life time.Duration
	// ExcludesEarlier says that the outside system lets at most one of all versions take effect (the same nonce). Only
	// then, or when all earlier versions are dead for good, is a further version stored.
	ExcludesEarlier bool
	// LaneNumber is the number that this token took from its lane's sequence (a nonce). It is read only where the
	// sheet says that tokens draw from the lane.
	LaneNumber int64
	MadeAt     time.Time // set by the ledger
	Dead       bool      // set by the ledger: proven to take no effect any more
}

// Digest is the bare hex SHA-256 of the token's data.
func (t Token) Digest() string {
	sum := sha256.Sum256(t.Data)
	return hex.EncodeToString(sum[:])
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Intent  Intent
	Version int     // the version wanted: len(Earlier)+1
	Earlier []Token // all versions so far, oldest first
	// LaneNumber is the next number of the lane's sequence, for channels whose tokens draw from it; the ledger raises it
	// in the statement that stores the token.
	LaneNumber int64
}
