package channel

import (
	"encoding/json"
	"errors"
	"time"
)

// Attempt is one try to send an intent, or the question what became of earlier tries.
type Attempt struct {
	Intent Intent
	Number int     // the attempt's number within the intent, from 1; for a probe that of the last attempt
	Tokens []Token // every version, oldest first
	// NotAfter is the moment after which Begin refuses. In an adapter process it is on that host's clock; engine and
	// adapter share a host.
	NotAfter time.Time
	// FirstSentAt and LastPossibleSend bound, for a probe, when the effect may have been made. Zero if never stamped.
	FirstSentAt, LastPossibleSend time.Time
	// Accepted is the evidence so far of an accepted intent; nil otherwise.
	Accepted *Evidence
	// BeginFunc is what Begin calls. The engine or the SDK sets it.
	BeginFunc func() error
}

// Token returns the newest token version; the zero Token if there is none.
func (a Attempt) Token() Token {
	if len(a.Tokens) == 0 {
		return Token{}
	}
	return a.Tokens[len(a.Tokens)-1]
}

// ErrNoBegin is returned by [Attempt.Begin] where no BeginFunc was set: the zero Attempt sends nothing.
var ErrNoBegin = &NotSentError{Err: errors.New("this attempt has no Begin: it is a probe's, or was not made by the engine or sdktest")}

// Begin stands before the last step that makes the effect. It refuses, with a [*NotSentError], after the not-after
// time or when the engine is gone; otherwise it records, durably enough to survive the adapter's death, that the wire
// is about to be touched. An error MUST be returned from Send unchanged, with the wire untouched.
func (a Attempt) Begin() error {
	if a.BeginFunc == nil {
		return ErrNoBegin
	}
	return a.BeginFunc()
}

// Evidence is what the outside system gave back.
type Evidence struct {
	// ID names the effect on the outside system: a message id, a queue id. An outside system that gave none leaves it
	// empty; an adapter MUST NOT invent one.
	ID string
	// Detail is whatever else it said, as JSON. Bytes that are not valid JSON are kept too, encoded by the ledger.
	Detail json.RawMessage
}

// Empty reports whether the evidence says nothing.
func (e Evidence) Empty() bool { return e.ID == "" && len(e.Detail) == 0 }
