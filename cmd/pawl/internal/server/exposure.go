package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

// checkExposure refuses to offer the API to others where nobody could tell who they are, or anybody could listen.
func checkExposure(ctx context.Context, c config.Config, l ledger.Ledger) error {
	if config.Loopback(c.API.Listen) {
		return nil
	}
	fault := func(key, format string, args ...any) error {
		return &config.Error{Faults: []config.Fault{{Place: "configuration", Key: key, Problem: fmt.Sprintf(format, args...)}}}
	}
	if !c.API.TLS.On() && !c.API.PlainText {
		return fault("api.tls", "is missing, and others can reach %s: tokens would cross the network in the clear. Name cert and key; "+
			"or, if something in front of it ends TLS, set api.plain_text to true", c.API.Listen)
	}
	tokens, err := l.APITokens(ctx)
	if err != nil {
		return fmt.Errorf("read the API tokens: %w", err)
	}
	now, err := l.Now(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's clock: %w", err)
	}
	for _, t := range tokens {
		if good(t, now) {
			return nil
		}
	}
	return fault("api.listen", "others can reach %s, and the ledger has no API token that is good: make one first, with: pawl tokens create NAME --scope admin", c.API.Listen)
}

func good(t ledger.APIToken, now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}
