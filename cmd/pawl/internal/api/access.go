package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Bounds of the tokens that are remembered.
const (
	// DefaultTokenMemory is how long a token that was found good counts as good without another look: so long after it was revoked
	// through another process it may still be used.
	DefaultTokenMemory = 3 * time.Second
	// tokenlessMemory is how long the answer that no token exists is believed.
	tokenlessMemory = time.Second
	maxRemembered   = 1024
)

// identity is who a request counts as.
type identity struct {
	Actor
	scopes    []string
	tokenless bool
}

// may reports whether any of the scopes is held. No scopes: anybody who is known.
func (i identity) may(scopes []string) bool {
	return len(scopes) == 0 || slices.Contains(i.scopes, pawlclient.ScopeAdmin) ||
		slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(i.scopes, s) })
}

type identityKey struct{}

// identityOf is who the request counts as that the context belongs to.
func identityOf(ctx context.Context) identity {
	i, _ := ctx.Value(identityKey{}).(identity)
	return i
}

// access finds out who a request counts as. It remembers good tokens for a moment, so that a claim does not cost a query for its token.
type access struct {
	service *Service
	memory  time.Duration
	now     func() time.Time

	mu      sync.Mutex
	changes int64 // of the service's tokens, when the rest was learnt
	known   map[string]remembered
	exists  bool      // a token exists, for ever
	noneAt  time.Time // when there was none
}

type remembered struct {
	identity identity
	until    time.Time
}

func newAccess(s *Service, memory time.Duration) *access {
	return &access{service: s, memory: memory, now: time.Now, known: map[string]remembered{}}
}

// bearer reads the token of a request; empty if it has none.
func bearer(r *http.Request) (string, *pawlclient.Problem) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return "", nil
	}
	scheme, secret, ok := strings.Cut(given[0], " ")
	if len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(secret) == "" {
		return "", newProblem(pawlclient.CodeUnauthenticated, "send one header, Authorization: Bearer TOKEN")
	}
	return strings.TrimSpace(secret), nil
}

// recall returns a token that was found good a moment ago.
func (a *access) recall(digest string) (identity, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetIfChanged()
	k, ok := a.known[digest]
	if !ok || !a.now().Before(k.until) {
		return identity{}, false
	}
	return k.identity, true
}

func (a *access) forgetIfChanged() {
	if n := a.service.tokenChanges.Load(); n != a.changes {
		a.changes, a.noneAt = n, time.Time{}
		clear(a.known)
	}
}

// look asks the ledger for the token. Problems are ready to be answered; other errors are the ledger's.
func (a *access) look(ctx context.Context, digest string) (identity, error) {
	changes := a.service.tokenChanges.Load()
	t, err := a.service.ledger.APITokenByDigest(ctx, digest)
	if errors.Is(err, ledger.ErrNoAPIToken) {
		return identity{}, newProblem(pawlclient.CodeUnauthenticated, "the token is not known; make one with: pawl tokens create")
	}
	if err != nil {
		return identity{}, problem(err, "header")
	}
	if !t.RevokedAt.IsZero() {
		return identity{}, newProblem(pawlclient.CodeUnauthenticated, "the token was revoked; make another one")
	}
	good := a.memory
	if !t.ExpiresAt.IsZero() { // on the ledger's clock
		now, err := a.service.ledger.Now(ctx)
		if err != nil {
			return identity{}, problem(err, "header")
		}
		left := t.ExpiresAt.Sub(now)
		if left <= 0 {
			return identity{}, newProblem(pawlclient.CodeUnauthenticated, "the token has expired; make another one")
		}
		good = min(good, left)
	}
	who := identity{Actor: Actor{Name: t.Name, TokenID: t.ID}, scopes: t.Scopes}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetIfChanged()
	a.exists = true
	if changes == a.changes { // else the token may have been revoked since it was read
		if len(a.known) >= maxRemembered {
			clear(a.known)
		}
		a.known[digest] = remembered{who, a.now().Add(good)}
	}
	return who, nil
}

// tokenless reports whether no token exists yet, not even a revoked one.
func (a *access) tokenless(ctx context.Context) (bool, error) {
	a.mu.Lock()
	a.forgetIfChanged()
	exists, fresh := a.exists, !a.noneAt.IsZero() && a.now().Sub(a.noneAt) < tokenlessMemory
	a.mu.Unlock()
	if exists || fresh {
		return !exists, nil
	}
	changes := a.service.tokenChanges.Load()
	tokens, err := a.service.ledger.APITokens(ctx)
	if err != nil {
		return false, problem(err, "header")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetIfChanged()
	switch {
	case len(tokens) > 0:
		a.exists = true
	case changes == a.changes:
		a.noneAt = a.now()
	}
	return !a.exists && len(tokens) == 0, nil
}
