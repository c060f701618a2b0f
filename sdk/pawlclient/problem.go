package pawlclient

import (
	"fmt"
	"strings"
)

// Problem is an error of the API: Problem Details for HTTP APIs (RFC 9457), with a code to decide on and the fields that are wrong.
type Problem struct {
	Type   string       `json:"type,omitempty"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Code   string       `json:"code" doc:"Stable, to decide on: see the Code constants"`
	Errors []FieldError `json:"errors,omitempty"`
	// RetryAfter is how many seconds to wait; 0: not said.
	RetryAfter int `json:"retry_after_seconds,omitempty"`
	// Intent is, for a key conflict, the intent that has the key.
	Intent *Intent `json:"intent,omitempty"`
	// Cause is the error behind it where the service runs in this process, for errors.Is and errors.As. It does not travel.
	Cause error `json:"-"`
}

// Unwrap returns Cause.
func (p *Problem) Unwrap() error { return p.Cause }

// FieldError names a field and what to do about it.
type FieldError struct {
	Location string `json:"location" doc:"Such as body.claims[3].payload.to"`
	Message  string `json:"message"`
}

// Codes of problems. They are stable.
const (
	CodeInvalid         = "invalid"         // 422: a field is wrong; see Errors
	CodeUnauthenticated = "unauthenticated" // 401
	CodeForbidden       = "forbidden"       // 403: the token lacks the scope
	CodeNotFound        = "not_found"       // 404
	CodeKeyConflict     = "key_conflict"    // 409: the key has another payload
	CodeMoved           = "moved"           // 409: the intent has changed since it was shown
	CodeEnded           = "ended"           // 409: it has ended; nothing was changed
	CodeRefused         = "refused"         // 409: the protocol does not allow it now
	CodeChannelOff      = "channel_off"     // 409: the channel takes no claims
	CodeLeaseLost       = "lease_lost"      // 409
	CodeLeaseHeld       = "lease_held"      // 409
	CodeTooLarge        = "too_large"       // 413
	CodeRateLimited     = "rate_limited"    // 429
	CodeUnavailable     = "unavailable"     // 503: the ledger cannot be written now; ask again
	CodeInternal        = "internal"        // 500
)

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for _, e := range p.Errors {
		fmt.Fprintf(&b, "; %s: %s", e.Location, e.Message)
	}
	return b.String()
}
