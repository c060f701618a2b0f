package command

import (
	"strings"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// problemExit is the exit code of a problem, by its code alone: from a service there is nothing else.
func problemExit(p *pawlclient.Problem) int {
	switch p.Code {
	case pawlclient.CodeInvalid, pawlclient.CodeTooLarge, pawlclient.CodeUnauthenticated, pawlclient.CodeForbidden:
		return ExitUsage
	case pawlclient.CodeNotFound, pawlclient.CodeKeyConflict, pawlclient.CodeMoved, pawlclient.CodeEnded, pawlclient.CodeRefused,
		pawlclient.CodeChannelOff, pawlclient.CodeLeaseLost, pawlclient.CodeLeaseHeld:
		return ExitNo
	case pawlclient.CodeUnavailable, pawlclient.CodeRateLimited:
		return ExitLedger
	}
	return ExitUnusual
}

// problemText says what is wrong, without what only a program needs.
func problemText(p *pawlclient.Problem) string {
	if p.Code == pawlclient.CodeInvalid && p.Detail == "" && len(p.Errors) > 0 {
		var parts []string
		for _, e := range p.Errors {
			_, field, ok := strings.Cut(e.Location, ".") // body, query, path
			if !ok {
				field = e.Location
			}
			parts = append(parts, field+": "+e.Message)
		}
		return strings.Join(parts, "; ")
	}
	switch p.Code {
	case pawlclient.CodeUnauthenticated, pawlclient.CodeForbidden, pawlclient.CodeUnavailable, pawlclient.CodeRateLimited, pawlclient.CodeInternal:
		return p.Error()
	}
	if p.Detail != "" {
		return p.Detail
	}
	return p.Error()
}

// unknownChannel makes a channel that is not there a mistake of the command line, as for a ledger.
func unknownChannel(err error) error {
	var p *pawlclient.Problem
	if asError(err, &p) && p.Code == pawlclient.CodeNotFound {
		return &exitError{ExitUsage, err}
	}
	return err
}
