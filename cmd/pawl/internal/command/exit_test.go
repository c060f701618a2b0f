package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func TestEveryKindOfFailureHasItsExitCode(t *testing.T) {
	ledgerGone := &server.LedgerError{Ledger: "postgres://h/d", Err: errors.New("connection refused")}
	tests := []struct {
		err  error
		want int
	}{
		{nil, ExitDone},
		{no("held"), ExitNo},
		{silently(ExitNo), ExitNo},
		{&ledger.KeyConflictError{}, ExitNo},
		{fmt.Errorf("resolve: %w", ledger.ErrNumberMoved), ExitNo},
		{fmt.Errorf("cancel: %w", ledger.ErrTerminal), ExitNo},
		{ledger.ErrChannelOff, ExitNo},
		{&ledger.RefusedError{}, ExitNo},
		{usage("--x is missing"), ExitUsage},
		{&config.Error{}, ExitUsage},
		{&core.ConfigError{Err: errors.New("x")}, ExitUsage},
		{fmt.Errorf("claim: %w", &ledger.InvalidError{}), ExitUsage},
		{fmt.Errorf("claim: %w", ledger.ErrUnknownChannel), ExitUsage},
		{ledgerGone, ExitLedger},
		{fmt.Errorf("open: %w", ledger.ErrNewer), ExitLedger},
		{fmt.Errorf("open: %w", ledger.ErrOtherLedger), ExitLedger},
		{&server.LedgerError{Err: context.DeadlineExceeded}, ExitLedger},
		{context.DeadlineExceeded, ExitNotYet},
		{&server.AdapterError{Channel: "file/a", Err: errors.New("x")}, ExitAdapter},
		{server.ErrHardStop, ExitUnusual},
		{fmt.Errorf("send: %w", &pawlclient.Problem{Code: pawlclient.CodeInvalid}), ExitUsage},
		{&pawlclient.Problem{Code: pawlclient.CodeUnauthenticated}, ExitUsage},
		{&pawlclient.Problem{Code: pawlclient.CodeForbidden}, ExitUsage},
		{&pawlclient.Problem{Code: pawlclient.CodeTooLarge}, ExitUsage},
		{&pawlclient.Problem{Code: pawlclient.CodeNotFound}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeKeyConflict}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeMoved}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeEnded}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeRefused}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeChannelOff}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeLeaseLost}, ExitNo},
		{&pawlclient.Problem{Code: pawlclient.CodeUnavailable}, ExitLedger},
		{&pawlclient.Problem{Code: pawlclient.CodeRateLimited}, ExitLedger},
		{&pawlclient.Problem{Code: pawlclient.CodeInternal}, ExitUnusual},
		{&pawlclient.Problem{Code: "of a later version"}, ExitUnusual},
		{&pawlclient.Problem{Code: pawlclient.CodeNotFound, Cause: ledger.ErrUnknownChannel}, ExitUsage}, // on a ledger, as ever
		{&pawlclient.UnreachableError{What: "GET /v1/stats", Err: context.DeadlineExceeded}, ExitLedger},
		{&pawlclient.UnclearError{What: "POST /v1/prune", Err: &pawlclient.Problem{Code: pawlclient.CodeUnavailable}}, ExitNotYet},
		{errors.New("disk full"), ExitUnusual},
	}
	for _, tt := range tests {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestEveryFaultHasALineOfItsOwn(t *testing.T) {
	policy := fmt.Errorf("channel file/a: %w", errors.Join(errors.New("unknown: must be stated"), errors.New("margin: must be positive")))
	tests := []struct {
		name string
		err  error
		want []string
	}{
		{"none", nil, nil},
		{"nothing to say", silently(ExitNo), nil},
		{"the engine's", &core.ConfigError{Err: errors.Join(errors.New("scan_every: must not be negative"), policy)}, []string{
			"configuration: scan_every: must not be negative", "configuration: channel file/a: unknown: must be stated",
			"configuration: channel file/a: margin: must be positive",
		}},
		{"the file's", fmt.Errorf("start: %w", &config.Error{Faults: []config.Fault{{Place: "p:1:1", Key: "a", Problem: "x"}, {Place: "p:2:1", Problem: "y"}}}), []string{
			"p:1:1: a: x", "p:2:1: y",
		}},
		{"a problem's fields", fmt.Errorf("claim: %w", &pawlclient.Problem{Code: pawlclient.CodeInvalid, Title: "A field is wrong", Errors: []pawlclient.FieldError{
			{Location: "body.payload.to", Message: "is no address"}, {Location: "query.limit", Message: "is 0"},
		}}), []string{"claim: payload.to: is no address; limit: is 0"}},
		{"a problem's detail", &pawlclient.Problem{Code: pawlclient.CodeEnded, Title: "It has ended", Detail: "it is committed"}, []string{"it is committed"}},
		{"a problem that is not about the request", &pawlclient.Problem{Code: pawlclient.CodeForbidden, Title: "Not allowed", Detail: "it lacks the scope read"},
			[]string{"Not allowed: it lacks the scope read"}},
		{"one of several lines", errors.New("a\nb\r\n\x1b[31mc"), []string{"a; b;  [31mc"}},
	}
	for _, tt := range tests {
		if got := errorLines(tt.err); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
	if got := errorLines(errors.New(strings.Repeat("x", 10*maxErrorText))); len(got[0]) > maxErrorText+8 {
		t.Errorf("an error has %d bytes", len(got[0]))
	}
}
