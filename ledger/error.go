package ledger

import (
	"errors"
	"fmt"
)

var (
	// ErrFenceLost says that the row has another fence, or is not dispatched any more: whoever gets it writes nothing
	// more under its fence, and hands in what it knows with the move [Late].
	ErrFenceLost = errors.New("the fence is lost: the intent has moved on under another one")
	// ErrFenceExpired says that the fence is still the row's but its time is over, or too little of it is left.
	ErrFenceExpired = errors.New("too little is left of the fence to send and to record it")
	// ErrFenceAlive says that somebody else's fence still counts.
	ErrFenceAlive = errors.New("another worker's fence on the intent is still alive; wait until it is dead")
	// ErrNoIntent says that there is no such row: it was never claimed, or the ledger is older than the caller.
	ErrNoIntent = errors.New("there is no such intent in this ledger")
	// ErrNoReceipt says that no receipt has this id.
	ErrNoReceipt = errors.New("there is no such receipt in this ledger")
	// ErrTerminal says that the intent is committed or abandoned and moves no more.
	ErrTerminal = errors.New("the intent has ended and moves no more")
	// ErrNumberMoved says that the row has changed since the number that a person was shown.
	ErrNumberMoved = errors.New("it has changed since it was shown; look again and decide on what is there now")
	// ErrTokenClash says that another intent of the channel has a token with the same digest.
	ErrTokenClash = errors.New("another intent of this channel already has this token; make another version")
	// ErrRetryTransaction says that the database gave up the caller's transaction (a serialization failure, a
	// deadlock): nothing was written; run the whole transaction again.
	ErrRetryTransaction = errors.New("retry your transaction: the database could not serialize it")
	// ErrChannelOff says that the channel's flag is off: claims are refused.
	ErrChannelOff = errors.New("the channel is off and takes no claims; turn it on or use another one")
	// ErrUnknownChannel says that no channel of that name is in the ledger.
	ErrUnknownChannel = errors.New("unknown channel")
	// ErrNewer says that the ledger was migrated by a newer version.
	ErrNewer = errors.New("this ledger is from a newer version of pawl; upgrade this program")
	// ErrNotMigrated says that the ledger lacks migrations.
	ErrNotMigrated = errors.New("this ledger is not migrated; run: pawl migrate up")
	// ErrUnavailable says that the ledger cannot be used now: it is busy, away or closed. Backends say it in words of their own.
	ErrUnavailable = errors.New("the ledger cannot be used now")
	// ErrOtherLedger says that the ledger's id is not the one that the configuration pins.
	ErrOtherLedger = errors.New("this is another ledger than the configuration names; a copy sends nothing")
)

// KeyConflictError says that the effect key is taken by an intent with another payload.
type KeyConflictError struct {
	Key          Key
	Have, Wanted string // payload digests, bare hex
}

func (e *KeyConflictError) Error() string {
	return fmt.Sprintf("key conflict: %s is claimed already with another payload (has digest %.12s…, claim has %.12s…); one key names one effect", e.Key.EffectKey, e.Have, e.Wanted)
}

// InvalidError says that a claim, or another request, has a field that cannot be right.
type InvalidError struct {
	Field  string
	Reason string // what is wrong and what to do
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// RefusedError says that a move breaks a rule of the protocol. Rule is a stable name.
type RefusedError struct {
	Move, Rule, Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s refused (%s): %s", e.Move, e.Rule, e.Reason)
}

// Unavailable is an [ErrUnavailable] in a backend's own words.
type Unavailable string

func (e Unavailable) Error() string { return string(e) }

// Is makes it an [ErrUnavailable].
func (Unavailable) Is(target error) bool { return target == ErrUnavailable }
