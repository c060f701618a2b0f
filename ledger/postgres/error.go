package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// ErrReadOnly says that the database takes no writes: it is a standby, or it is failing over.
var ErrReadOnly = errors.New("the database is read-only (a standby, or failing over); point the URL at the primary, or name all hosts and add target_session_attrs=read-write")

// errRolledBack says that COMMIT was answered with a rollback.
var errRolledBack error = ledger.Unavailable("the database rolled the transaction back at commit")

// errEvidenceClash says that another intent has the evidence id: the move is decided again, knowing that.
var errEvidenceClash = errors.New("another intent of the channel has this evidence id")

// SQL states that this package tells apart. PW… are raised by the ledger's own triggers.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateUnique        = "23505"
	stateSlipped       = "22012" // division by zero: an update met another number of rows than it was made for
	stateReadOnly      = "25006"
	stateNoTable       = "42P01"
	stateNoSchema      = "3F000"
	stateShutdown      = "57P01"
	stateCrash         = "57P02"
	stateStarting      = "57P03"
	stateTimeout       = "57014"
	stateIllegal       = "PW001"
	stateLeaseNeeded   = "PW002"
)

// sqlState returns the SQL state in err, whichever driver it came from; empty if there is none.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// constraintOf returns the name of the constraint that err says was broken.
func constraintOf(err error) string {
	if e, ok := pgError(err); ok {
		return e.ConstraintName
	}
	return ""
}

// again reports whether a transaction of the ledger's own is to be run again: the database gave it up, or the connection broke
// before COMMIT was sent, so that nothing was written.
func again(err error, committing bool) bool {
	if errors.Is(err, errEvidenceClash) {
		return true
	}
	switch sqlState(err) {
	case stateSerialization, stateDeadlock, stateSlipped:
		return true
	case stateShutdown, stateCrash, stateStarting:
		return !committing
	case "":
		return !committing && connectionBroke(err)
	}
	return false
}

// lostAnswer reports whether a transaction that ended with err may have been committed all the same.
func lostAnswer(err error, committing bool) bool {
	state := sqlState(err)
	return committing && (state == "" || state == stateShutdown || state == stateCrash)
}

// ownError words an error of a transaction of the ledger's own.
func ownError(err error, committing bool) error {
	switch state := sqlState(err); {
	case err == nil:
		return nil
	case state == stateReadOnly:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case state == stateUnique && constraintOf(err) == "effect_tokens_digest":
		return fmt.Errorf("%w: %w", ledger.ErrTokenClash, err)
	case state == stateNoTable, state == stateNoSchema:
		return fmt.Errorf("%w: %w", ledger.ErrNotMigrated, err)
	case state == stateSlipped:
		return fmt.Errorf("%w: %w", ledger.ErrFenceLost, err)
	case lostAnswer(err, committing):
		return fmt.Errorf("the answer to COMMIT is lost, it may have worked (make the same move again): %w", err)
	}
	return err
}

// callerError words an error inside the caller's transaction.
func callerError(err error, leased bool) error {
	switch state := sqlState(err); {
	case err == nil:
		return nil
	case state == stateSerialization, state == stateDeadlock:
		return fmt.Errorf("%w: %w", ledger.ErrRetryTransaction, err)
	case state == stateLeaseNeeded && leased:
		return fmt.Errorf("%w: %w", errLeaseLost, err)
	case state == stateLeaseNeeded:
		return fmt.Errorf("%w: %w", &ledger.InvalidError{Field: "lease", Reason: "the run is leased; claim under its lease"}, err)
	case state == stateReadOnly:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case state == stateNoTable, state == stateNoSchema:
		return fmt.Errorf("%w: %w", ledger.ErrNotMigrated, err)
	}
	return err
}

// ended reports whether err is that of a context.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
