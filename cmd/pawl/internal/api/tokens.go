package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// secretPrefix begins every API token, so that people and scanners know one when they see it.
const secretPrefix = "pawl_"

// secretBytes is how much of a secret is random.
const secretBytes = 32

// Scopes returns all scopes of API tokens, the narrowest first.
func Scopes() []string {
	return []string{pawlclient.ScopeClaim, pawlclient.ScopeRead, pawlclient.ScopeOperate, pawlclient.ScopeAdmin}
}

// secretDigest is what is stored of a secret: 256 random bits need no slow hash.
func secretDigest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// APITokens lists the tokens without their secrets, oldest first.
func (s *Service) APITokens(ctx context.Context) ([]pawlclient.APIToken, error) {
	found, err := s.ledger.APITokens(ctx)
	views := []pawlclient.APIToken{}
	for _, t := range found {
		views = append(views, viewAPIToken(t))
	}
	return views, problem(err, "path")
}

func viewAPIToken(t ledger.APIToken) pawlclient.APIToken {
	return pawlclient.APIToken{
		ID: t.ID, Name: t.Name, Scopes: t.Scopes, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy,
	}
}

// CreateAPIToken makes a token. Its secret is in the result and nowhere else.
func (s *Service) CreateAPIToken(ctx context.Context, n pawlclient.NewAPIToken) (pawlclient.IssuedAPIToken, error) {
	actor, by, err := s.acting(ctx, n.By)
	if err != nil {
		return pawlclient.IssuedAPIToken{}, err
	}
	t, err := s.newToken(ctx, n)
	if err != nil {
		return pawlclient.IssuedAPIToken{}, err
	}
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := secretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	t.Digest, t.CreatedBy = secretDigest(secret), by
	a := action{actor: actor, by: by, name: "token.create", subject: t.ID, detail: map[string]any{"name": t.Name, "scopes": t.Scopes}}
	if !t.ExpiresAt.IsZero() {
		a.detail["expires_at"] = t.ExpiresAt
	}
	err = s.audited(ctx, a, func() error {
		err := s.ledger.PutAPIToken(ctx, t)
		s.tokenChanges.Add(1)
		if errors.Is(err, ledger.ErrNameTaken) {
			p := newProblem(pawlclient.CodeRefused, "%s", err)
			p.Errors, p.Cause = []pawlclient.FieldError{{Location: "body.name", Message: "is taken"}}, err
			return p
		}
		return problem(err, "body")
	})
	if err != nil {
		return pawlclient.IssuedAPIToken{}, err
	}
	return pawlclient.IssuedAPIToken{APIToken: viewAPIToken(t), Secret: secret}, nil
}

// newToken checks what was asked for.
func (s *Service) newToken(ctx context.Context, n pawlclient.NewAPIToken) (ledger.APIToken, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`).MatchString(n.Name) || len(n.Name) > 100 {
		return ledger.APIToken{}, invalid("body.name", "must be 1 to 100 letters, digits, dots, dashes, @ or underscores, and begin with a letter or digit")
	}
	if len(n.Scopes) == 0 {
		return ledger.APIToken{}, invalid("body.scopes", "is empty; name claim, read, operate or admin")
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(Scopes(), scope) {
			return ledger.APIToken{}, invalid("body.scopes", "must be of claim, read, operate and admin")
		}
	}
	if err := checkTime("body.expires_at", n.ExpiresAt); err != nil {
		return ledger.APIToken{}, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return ledger.APIToken{}, problem(err, "body")
	}
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now) {
		return ledger.APIToken{}, invalid("body.expires_at", "is not in the future")
	}
	scopes := slices.DeleteFunc(Scopes(), func(scope string) bool { return !slices.Contains(n.Scopes, scope) })
	return ledger.APIToken{ID: uuid.NewString(), Name: n.Name, Scopes: scopes, CreatedAt: now, ExpiresAt: n.ExpiresAt}, nil
}

// RevokeAPIToken ends a token. One that is revoked already stays as it is.
func (s *Service) RevokeAPIToken(ctx context.Context, id, by string) (pawlclient.APIToken, error) {
	actor, by, err := s.acting(ctx, by)
	if err != nil {
		return pawlclient.APIToken{}, err
	}
	parsed, err := runID("path.id", id)
	if err != nil {
		return pawlclient.APIToken{}, err
	}
	var t ledger.APIToken
	err = s.audited(ctx, action{actor: actor, by: by, name: "token.revoke", subject: parsed}, func() error {
		t, err = s.ledger.RevokeAPIToken(ctx, parsed, by)
		s.tokenChanges.Add(1)
		return problem(err, "path")
	})
	return viewAPIToken(t), err
}
