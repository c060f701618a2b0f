package channel

import (
	"errors"
	"fmt"
	"time"
)

// NotSentError proves that this attempt did not make the effect and never will. The engine may try again.
type NotSentError struct {
	// RetryAfter is what the outside system asked for; 0: the engine's backoff decides.
	RetryAfter time.Duration
	// Configuration says that the channel itself is at fault (a wrong password): it is paused until a person looks.
	Configuration bool
	Err           error
}

func (e *NotSentError) Error() string { return "not sent: " + text(e.Err) }
func (e *NotSentError) Unwrap() error { return e.Err }

// RejectedError proves that the effect did not happen and that the outside system will never take this payload.
type RejectedError struct {
	Code string // the outside system's own code ("550 5.1.1"); for a person
	Err  error
}

func (e *RejectedError) Error() string {
	if e.Code == "" {
		return "rejected: " + text(e.Err)
	}
	return fmt.Sprintf("rejected (%s): %s", e.Code, text(e.Err))
}
func (e *RejectedError) Unwrap() error { return e.Err }

// AmbiguousError says that the effect may have happened. Phase names where certainty ended.
type AmbiguousError struct {
	Phase string
	Err   error
}

func (e *AmbiguousError) Error() string {
	if e.Phase == "" {
		return "ambiguous: " + text(e.Err)
	}
	return fmt.Sprintf("ambiguous (%s): %s", e.Phase, text(e.Err))
}
func (e *AmbiguousError) Unwrap() error { return e.Err }

func text(err error) string {
	if err == nil {
		return "no reason given"
	}
	return err.Error()
}

// ErrNotAsked is wrapped by errors of Probe that say nothing of the outside system, because it was not asked: the adapter's process is not
// there. The engine asks again, and does not count it as an answer.
var ErrNotAsked = errors.New("the outside system was not asked")

// NotSent wraps err as proof that nothing was sent.
func NotSent(err error) error { return &NotSentError{Err: err} }

// Rejected wraps err as a final refusal.
func Rejected(code string, err error) error { return &RejectedError{Code: code, Err: err} }

// Ambiguous wraps err as "may have happened".
func Ambiguous(phase string, err error) error { return &AmbiguousError{Phase: phase, Err: err} }

// ProvenNotSent is the one predicate that makes a retry safe: it reports whether err proves that the attempt had no
// effect and will have none. It is false for nil and for every error it does not know. An error that is marked both
// ways, by wrapping, is ambiguous.
func ProvenNotSent(err error) bool {
	var ambiguous *AmbiguousError
	if errors.As(err, &ambiguous) {
		return false
	}
	var notSent *NotSentError
	var rejected *RejectedError
	return errors.As(err, &notSent) || errors.As(err, &rejected)
}
