package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

var (
	// ErrNoAPIToken says that no token has this id or digest.
	ErrNoAPIToken = errors.New("there is no such API token")
	// ErrNameTaken says that a token that is not revoked has the name already.
	ErrNameTaken = errors.New("a token of this name exists already; revoke it first, or choose another name")
)

// Access keeps who may use the API, and what they asked for.
type Access interface {
	// PutAPIToken stores a new token; CreatedAt is filled in if it is zero. [ErrNameTaken] if one that is not revoked has its name. Storing the
	// same token again, because the answer to the first time is lost, changes nothing.
	PutAPIToken(ctx context.Context, t APIToken) error
	// APITokens returns all tokens, also expired and revoked ones, oldest first.
	APITokens(ctx context.Context) ([]APIToken, error)
	// APITokenByDigest returns the token with this digest, also if it is expired or revoked. [ErrNoAPIToken].
	APITokenByDigest(ctx context.Context, digest string) (APIToken, error)
	// RevokeAPIToken ends a token; one that is revoked already stays as it is. [ErrNoAPIToken].
	RevokeAPIToken(ctx context.Context, id, by string) (APIToken, error)
	// AppendAudit adds a row to the audit trail; ID and At are filled in if empty. Rows are never changed or deleted. Texts that are too
	// long are cut.
	AppendAudit(ctx context.Context, e AuditEntry) error
	// Audit lists the trail, newest first, at most limit rows (0: 100; more than 1000: 1000).
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
	Detail  json.RawMessage // a JSON value of at most MaxAuditDetail; never a secret
	Result  string          // AuditAsked, AuditDone or AuditRefused; an asked without a later row was cut off
}

// The results in the audit trail.
const (
	AuditAsked   = "asked"
	AuditDone    = "done"
	AuditRefused = "refused"
)

// MaxAuditDetail bounds the detail of an audit entry, in bytes.
const MaxAuditDetail = 64 << 10

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check says what is wrong with a token that is to be stored: an [*InvalidError] that names the field.
func (t APIToken) Check() error {
	switch {
	case !uuidForm.MatchString(t.ID):
		return invalid("id", "%q is not a UUID in lower case", cut(t.ID, 64))
	case t.Name == "" || len(t.Name) > MaxName || !plainText(t.Name):
		return invalid("name", "must be 1 to %d bytes of plain text", MaxName)
	case !digestForm.MatchString(t.Digest):
		return invalid("digest", "is not the bare hex SHA-256 of the secret") // what was given may be the secret itself
	case len(t.Scopes) == 0:
		return invalid("scopes", "is empty: a token without a scope can do nothing")
	case t.CreatedBy == "" || len(t.CreatedBy) > MaxReason || !plainText(t.CreatedBy):
		return invalid("created_by", "must say who, in plain text of at most %d bytes", MaxReason)
	case !t.RevokedAt.IsZero() || t.RevokedBy != "":
		return invalid("revoked_at", "a new token is not revoked")
	case !Keepable(t.CreatedAt):
		return invalid("created_at", unkeepable)
	case !Keepable(t.ExpiresAt):
		return invalid("expires_at", unkeepable)
	case !t.ExpiresAt.IsZero() && !t.CreatedAt.IsZero() && !t.ExpiresAt.After(t.CreatedAt):
		return invalid("expires_at", "is not after created_at: the token could never be used")
	}
	for _, s := range t.Scopes {
		if s == "" || len(s) > MaxName || !plainText(s) {
			return invalid("scopes", "%q is no scope", cut(s, 64))
		}
	}
	return nil
}

// Normal makes an entry fit to be stored: texts without NUL, cut at [MaxReason]. What cannot be right is an [*InvalidError].
func (e AuditEntry) Normal() (AuditEntry, error) {
	switch {
	case e.ID != "" && !uuidForm.MatchString(e.ID):
		return e, invalid("id", "%q is not a UUID in lower case", cut(e.ID, 64))
	case e.Action == "":
		return e, invalid("action", "is empty; say what was asked for")
	case e.Result != AuditAsked && e.Result != AuditDone && e.Result != AuditRefused:
		return e, invalid("result", "%q is not asked, done or refused", cut(e.Result, 64))
	case len(e.Detail) > MaxAuditDetail:
		return e, invalid("detail", "is %d bytes, more than %d", len(e.Detail), MaxAuditDetail)
	case len(e.Detail) > 0 && (!json.Valid(e.Detail) || !utf8.Valid(e.Detail)):
		return e, invalid("detail", "is not JSON")
	}
	for _, s := range []*string{&e.Actor, &e.TokenID, &e.Action, &e.Subject} {
		*s = bounded(*s)
	}
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return e, fmt.Errorf("make an id: %w", err)
		}
		e.ID = id.String()
	}
	return e, nil
}
