package pawlclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Defaults of [Retry].
const (
	DefaultTries      = 5
	DefaultFirstDelay = 100 * time.Millisecond
	DefaultMaxDelay   = 5 * time.Second
	DefaultMaxAsked   = time.Minute
)

// Retry says how often a request is tried, and how long is waited between tries: a random time of up to FirstDelay, then of up to
// twice that, and so on up to MaxDelay. The context bounds all tries together.
type Retry struct {
	Tries      int           // with the first one; 0: [DefaultTries]; 1: no retry
	FirstDelay time.Duration // 0: [DefaultFirstDelay]
	MaxDelay   time.Duration // 0: [DefaultMaxDelay]
	// MaxAsked is the longest Retry-After that is obeyed; 0: [DefaultMaxAsked]. Beyond it the answer is returned at once.
	MaxAsked time.Duration
}

func (r Retry) withDefaults() (Retry, error) {
	switch {
	case r.Tries < 0:
		return r, fmt.Errorf("option Retry.Tries: must not be negative, is %d", r.Tries)
	case r.FirstDelay < 0, r.MaxDelay < 0, r.MaxAsked < 0:
		return r, fmt.Errorf("option Retry: a time must not be negative")
	}
	if r.Tries == 0 {
		r.Tries = DefaultTries
	}
	if r.FirstDelay == 0 {
		r.FirstDelay = DefaultFirstDelay
	}
	if r.MaxDelay == 0 {
		r.MaxDelay = DefaultMaxDelay
	}
	if r.MaxAsked == 0 {
		r.MaxAsked = DefaultMaxAsked
	}
	if r.FirstDelay > r.MaxDelay {
		return r, fmt.Errorf("option Retry.FirstDelay: is %s, more than MaxDelay (%s)", r.FirstDelay, r.MaxDelay)
	}
	return r, nil
}

// delay is how long to wait after try number n, which counts from 1. Full jitter: clients that failed together come back apart.
func (r Retry) delay(n int) time.Duration {
	most := r.MaxDelay
	if n < 30 {
		most = min(most, r.FirstDelay<<(n-1))
	}
	return rand.N(most + 1)
}

// pause waits after try number n, and at least as long as the server asked for. False: it would be too long, or ctx ends before.
func (r Retry) pause(ctx context.Context, n int, asked time.Duration) bool {
	if asked > r.MaxAsked {
		return false
	}
	wait := max(r.delay(n), asked)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter reads the header's two forms. 0: not said, or not to be read.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return min(time.Duration(seconds), 1<<31) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
