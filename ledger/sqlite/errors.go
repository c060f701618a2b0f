package sqlite

import (
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// The primary result codes of SQLite that are acted on.
const (
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeCantOpen   = 14
	codeConstraint = 19
	codeNotADB     = 26
	primaryResult  = 0xff
)

// code returns the primary result code of an error of the driver; 0 if it is no such error.
func code(err error) int {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code() & primaryResult
	}
	return 0
}

// busy reports whether another connection was in the way, and nothing was written.
func busy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeLocked
}

// callerError is an error within the caller's own transaction: where another connection was in the way, the caller must run it again.
func callerError(err error) error {
	if err != nil && busy(err) {
		return fmt.Errorf("%w: %w", ledger.ErrRetryTransaction, err)
	}
	return err
}
