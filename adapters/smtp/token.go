package smtp

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// endpointTimeout bounds one request to the token endpoint.
	endpointTimeout = 20 * time.Second
	maxTokenAnswer  = 256 << 10 // bytes
	// unsaidLife is how long a token is kept whose endpoint says nothing about it.
	unsaidLife = 5 * time.Minute
	// earlyRenewal is how long before its end a token is no longer used, at most: it must last for the whole session.
	earlyRenewal = time.Minute
	// shownTokens is how many tokens are remembered, to be kept out of errors.
	shownTokens = 4
)

// tokens gives access tokens. It is safe for concurrent use; one request is made at a time, and who waits for it gets its answer.
type tokens struct {
	config OAuth2
	prefix string
	client *http.Client
	now    func() time.Time
	turn   chan struct{} // holds one value: whoever took it asks

	mu      sync.Mutex
	access  string
	until   time.Time
	renewed string   // refresh token that the endpoint gave and that could not be kept
	secrets []string // to be kept out of errors
}

func newTokens(config OAuth2, prefix string) *tokens {
	t := &tokens{config: config, prefix: prefix + "oauth2.", now: time.Now, turn: make(chan struct{}, 1), client: &http.Client{
		Timeout:       endpointTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // secrets go to the configured place only
	}}
	t.turn <- struct{}{}
	return t
}

// get returns an access token other than the one that was refused (empty: any). If there is no other, it returns that one.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	if t.config.TokenFile != "" {
		token, err := secretFile(t.prefix+"token_file", t.config.TokenFile)
		t.remember(token)
		return token, err
	}
	if token, ok := t.cached(refused); ok {
		return token, nil
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-t.turn:
	}
	defer func() { t.turn <- struct{}{} }()
	if token, ok := t.cached(refused); ok { // another caller has asked meanwhile
		return token, nil
	}
	return t.refresh(ctx)
}

func (t *tokens) cached(refused string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.access, t.access != "" && t.access != refused && t.now().Before(t.until)
}

// remember keeps a secret out of errors from now on.
func (t *tokens) remember(secret string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if secret == "" || slices.Contains(t.secrets, secret) {
		return
	}
	t.secrets = append(t.secrets, secret)
	if len(t.secrets) > 3*shownTokens {
		t.secrets = t.secrets[len(t.secrets)-2*shownTokens:]
	}
}

// known returns the secrets that were used lately.
func (t *tokens) known() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.secrets)
}
