package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

var (
	// ErrNoAPIToken says that no token has this id or digest.
	ErrNoAPIToken = errors.New("there is no such API token")
	// ErrNameTaken says that a token that is not revoked has the name already.
	ErrNameTaken = errors.New("a token of this name exists already; revoke it first, or choose another name")
)

// Access keeps who may use the API, and what they asked for.
type Access interface {
	// PutAPIToken stores a new token. [ErrNameTaken] if one that is not revoked has its name.
	PutAPIToken(ctx context.Context, t APIToken) error
	// APITokens returns all tokens, also expired and revoked ones, oldest first.
	APITokens(ctx context.Context) ([]APIToken, error)
	// APITokenByDigest returns the token with this digest, also if it is expired or revoked. [ErrNoAPIToken].
	APITokenByDigest(ctx context.Context, digest string) (APIToken, error)
	// RevokeAPIToken ends a token; one that is revoked already stays as it is. [ErrNoAPIToken].
	RevokeAPIToken(ctx context.Context, id, by string) (APIToken, error)
	// AppendAudit adds a row to the audit trail; ID and At are filled in if empty. Rows are never changed or deleted.
	AppendAudit(ctx context.Context, e AuditEntry) error
	// Audit lists the trail, newest first, at most limit rows (0: 100).
	Audit(ctx context.Context, limit int, after Cursor) ([]AuditEntry, Cursor, error)
}

// APIToken is a bearer token of the HTTP API. Only the digest of its secret is stored.
type APIToken struct {
	ID        string // UUID
	Name      string // unique among those that are not revoked
	Digest    string // bare hex SHA-256 of the secret
	Scopes    []string
	CreatedAt time.Time
	CreatedBy string
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time
	RevokedBy string
}

// AuditEntry is a row of the audit trail.
type AuditEntry struct {
	ID      string // UUIDv7
	At      time.Time
	Actor   string // person or token
	TokenID string
	Action  string          // such as resolve, channel.pause
	Subject string          // what it was about: "RUN KEY", a channel, a token's id
	Detail  json.RawMessage // never a secret
	Result  string          // asked, done or refused; an asked without a later row was cut off
}
