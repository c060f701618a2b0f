package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/demo"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Exit codes. They are stable.
const (
	ExitDone     = 0
	ExitNo       = 1
	ExitUsage    = 2
	ExitLedger   = 3
	ExitNotYet   = 4
	ExitAdapter  = 5
	ExitUnusual  = 6
	maxErrorText = 4096 // bytes of one error, for a person to read
)

// ExitCodes says what each exit code means, in order.
func ExitCodes() []string {
	return []string{
		"done; for send: committed",
		"the answer is no: an intent is held or abandoned, a claim conflicts or its channel is off, a move is refused, a receipt is rejected; for status and doctor: something needs a person",
		"the command line, the configuration, the API token or a value in the input is wrong",
		"the ledger cannot be used, or the API: it does not answer, is not migrated, is from a newer version, or is another one than configured",
		"not known yet: send stopped waiting and the intent goes on, or the API gave no answer to what may have been done",
		"an adapter could not be started",
		"anything else: a file could not be written, the engine was stopped by force",
	}
}

func newExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Every command ends with one of these exit codes.\n\n")
	for code, meaning := range ExitCodes() {
		fmt.Fprintf(&b, "  %d  %s\n", code, meaning)
	}
	b.WriteString("\nErrors are written to standard error, one line each, and begin with \"pawl: \".")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}

// exitError is an error with an exit code of its own. With a nil Err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}
func no(format string, args ...any) error { return &exitError{ExitNo, fmt.Errorf(format, args...)} }

// silently ends with a code: what there was to say has been printed.
func silently(code int) error {
	if code == ExitDone {
		return nil
	}
	return &exitError{code: code}
}

// ExitCode is the exit code of what a command returned.
func ExitCode(err error) int {
	var exit *exitError
	var noLedger *server.LedgerError
	var noAdapter *server.AdapterError
	var unclear *pawlclient.UnclearError
	var unreachable *pawlclient.UnreachableError
	var problem *pawlclient.Problem
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &unclear):
		return ExitNotYet
	case errors.As(err, &noAdapter):
		return ExitAdapter
	case isInput(err):
		return ExitUsage
	case isNo(err):
		return ExitNo
	case errors.As(err, &noLedger), errors.Is(err, ledger.ErrNewer), errors.Is(err, ledger.ErrNotMigrated), errors.Is(err, ledger.ErrOtherLedger):
		return ExitLedger
	case errors.As(err, &problem):
		return problemExit(problem)
	case errors.As(err, &unreachable):
		return ExitLedger
	case errors.Is(err, context.DeadlineExceeded):
		return ExitNotYet
	}
	return ExitUnusual
}

func isInput(err error) bool {
	var flags *demo.OptionError
	if errors.As(err, &flags) {
		return true
	}
	var file *config.Error
	var engine *core.ConfigError
	var invalid *ledger.InvalidError
	var syntax *canonical.SyntaxError
	var key *canonical.KeyError
	return errors.As(err, &file) || errors.As(err, &engine) || errors.As(err, &invalid) || errors.As(err, &syntax) ||
		errors.As(err, &key) || errors.Is(err, ledger.ErrUnknownChannel)
}

func isNo(err error) bool {
	var conflict *ledger.KeyConflictError
	var refused *ledger.RefusedError
	if errors.As(err, &conflict) || errors.As(err, &refused) {
		return true
	}
	for _, e := range []error{
		ledger.ErrChannelOff, ledger.ErrNoIntent, ledger.ErrTerminal, ledger.ErrNumberMoved, ledger.ErrFenceAlive, ledger.ErrFenceLost,
		demo.ErrPromise,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errorLines is the text of an error: one line, or one for each fault of a configuration.
func errorLines(err error) []string {
	if err == nil || err.Error() == "" {
		return nil
	}
	var file *config.Error
	var engine *core.ConfigError
	var lines []string
	switch {
	case errors.As(err, &file):
		for _, f := range file.Faults {
			lines = append(lines, f.String())
		}
	case errors.As(err, &engine):
		lines = spread(engine)
	default:
		text := err.Error()
		var p *pawlclient.Problem
		if errors.As(err, &p) {
			text = strings.Replace(text, p.Error(), problemText(p), 1)
		}
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			text += "; if the certificate is one of your own making, name its file in SSL_CERT_FILE"
		}
		lines = []string{text}
	}
	for i, line := range lines {
		line = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
		if len(line) > maxErrorText {
			line = strings.ToValidUTF8(line[:maxErrorText], "") + "…"
		}
		lines[i] = plain(line)
	}
	return lines
}

// spread splits joined errors, and repeats in front of each what was wrapped around all of them.
func spread(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, e := range joined.Unwrap() {
			lines = append(lines, spread(e)...)
		}
		return lines
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return []string{err.Error()}
	}
	before, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok {
		return []string{err.Error()}
	}
	lines := spread(inner)
	for i := range lines {
		lines[i] = before + lines[i]
	}
	return lines
}

func suggest(name string, known []string) string { return config.Suggest(name, known) }
