package api

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// retryUnavailable is after how many seconds to ask again where the ledger could not be used.
const retryUnavailable = 1

// meaning is what a code stands for.
type meaning struct {
	status int
	title  string
}

func meaningOf(code string) meaning {
	switch code {
	case pawlclient.CodeInvalid:
		return meaning{http.StatusUnprocessableEntity, "A field is wrong"}
	case pawlclient.CodeUnauthenticated:
		return meaning{http.StatusUnauthorized, "The request has no valid token"}
	case pawlclient.CodeForbidden:
		return meaning{http.StatusForbidden, "Not allowed"}
	case pawlclient.CodeNotFound:
		return meaning{http.StatusNotFound, "Not found"}
	case pawlclient.CodeKeyConflict:
		return meaning{http.StatusConflict, "The key has another payload"}
	case pawlclient.CodeMoved:
		return meaning{http.StatusConflict, "It has changed meanwhile"}
	case pawlclient.CodeEnded:
		return meaning{http.StatusConflict, "It has ended"}
	case pawlclient.CodeRefused:
		return meaning{http.StatusConflict, "Not allowed now"}
	case pawlclient.CodeChannelOff:
		return meaning{http.StatusConflict, "The channel is off"}
	case pawlclient.CodeLeaseLost:
		return meaning{http.StatusConflict, "The lease is lost"}
	case pawlclient.CodeLeaseHeld:
		return meaning{http.StatusConflict, "The lease is held"}
	case pawlclient.CodeTooLarge:
		return meaning{http.StatusRequestEntityTooLarge, "The request is too large"}
	case pawlclient.CodeRateLimited:
		return meaning{http.StatusTooManyRequests, "Too many requests"}
	case pawlclient.CodeUnavailable:
		return meaning{http.StatusServiceUnavailable, "The ledger cannot be used now"}
	}
	return meaning{http.StatusInternalServerError, "Something went wrong"}
}

func newProblem(code, format string, args ...any) *pawlclient.Problem {
	m := meaningOf(code)
	return &pawlclient.Problem{Title: m.title, Status: m.status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// invalid names one field that is wrong.
func invalid(location, format string, args ...any) *pawlclient.Problem {
	p := newProblem(pawlclient.CodeInvalid, "")
	p.Errors = []pawlclient.FieldError{{Location: location, Message: fmt.Sprintf(format, args...)}}
	return p
}

// problem is what a caller is told of an error. Fields that the ledger names are looked for at this place: body, query or path. Nil
// stays nil.
func problem(err error, at string) error {
	if err == nil {
		return nil
	}
	var p *pawlclient.Problem
	if errors.As(err, &p) {
		return p
	}
	var wrong *ledger.InvalidError
	if errors.As(err, &wrong) {
		p = invalid(at+"."+fieldName(wrong.Field), "%s", wrong.Reason)
	} else {
		p = newProblem(codeOf(err), "%s", err)
	}
	if p.Code == pawlclient.CodeUnavailable {
		p.RetryAfter = retryUnavailable
	}
	p.Cause = err
	return p
}

// fieldName is what the API calls a field of the ledger's.
func fieldName(field string) string {
	switch field {
	case "cursor":
		return "after"
	case "ttl":
		return "ttl_seconds"
	case "status":
		return "to"
	case "older_than", "horizon":
		return field + "_seconds"
	}
	return field
}

// codeOf sorts what is no invalid field.
func codeOf(err error) string {
	var conflict *ledger.KeyConflictError
	var refused *ledger.RefusedError
	switch {
	case errors.As(err, &conflict):
		return pawlclient.CodeKeyConflict
	case errors.As(err, &refused):
		return pawlclient.CodeRefused
	}
	for _, known := range []struct {
		err  error
		code string
	}{
		{ledger.ErrNoIntent, pawlclient.CodeNotFound},
		{ledger.ErrNoReceipt, pawlclient.CodeNotFound},
		{ledger.ErrNoAPIToken, pawlclient.CodeNotFound},
		{ledger.ErrUnknownChannel, pawlclient.CodeNotFound},
		{fence.ErrNoRun, pawlclient.CodeNotFound},
		{ledger.ErrTerminal, pawlclient.CodeEnded},
		{fence.ErrEnded, pawlclient.CodeEnded},
		{ledger.ErrNumberMoved, pawlclient.CodeMoved},
		{ledger.ErrFenceLost, pawlclient.CodeMoved},
		{ledger.ErrFenceExpired, pawlclient.CodeMoved},
		{ledger.ErrFenceAlive, pawlclient.CodeRefused},
		{ledger.ErrNameTaken, pawlclient.CodeRefused},
		{fence.ErrQuarantined, pawlclient.CodeRefused},
		{fence.ErrHostLeases, pawlclient.CodeRefused},
		{ledger.ErrChannelOff, pawlclient.CodeChannelOff},
		{fence.ErrLost, pawlclient.CodeLeaseLost},
		{fence.ErrHeld, pawlclient.CodeLeaseHeld},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	if unavailable(err) {
		return pawlclient.CodeUnavailable
	}
	return pawlclient.CodeInternal
}

// SQLite's primary result codes that say that the file cannot be used now: busy, locked, read-only, input or output failed, full,
// cannot be opened.
func passingSQLite(code int) bool {
	switch code & 0xff {
	case 5, 6, 8, 10, 13, 14:
		return true
	}
	return false
}

// unavailable reports whether the ledger could not be used, as opposed to a mistake in this program.
func unavailable(err error) bool {
	for _, passing := range []error{
		ledger.ErrUnavailable, ledger.ErrRetryTransaction, ledger.ErrNewer, ledger.ErrNotMigrated, ledger.ErrOtherLedger, context.DeadlineExceeded,
		context.Canceled, io.EOF, io.ErrUnexpectedEOF, sql.ErrConnDone, driver.ErrBadConn,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var network net.Error
	var connect *pgconn.ConnectError
	if errors.As(err, &network) || errors.As(err, &connect) {
		return true
	}
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		s := state.SQLState()
		for _, class := range []string{"08", "25006", "40", "53", "55P03", "57", "58"} {
			if strings.HasPrefix(s, class) {
				return true
			}
		}
	}
	var embedded interface{ Code() int }
	return errors.As(err, &embedded) && passingSQLite(embedded.Code())
}
