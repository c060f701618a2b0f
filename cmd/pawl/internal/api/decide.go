package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// resolveFence is how long a person's decision may take to be written once it is made.
const resolveFence = 30 * time.Second

// scope names this package in traces.
const scope = "github.com/pawlworks/pawl/cmd/pawl/internal/api"

// settledMeanwhile says that a person's decision came too late.
func settledMeanwhile() error {
	p := newProblem(pawlclient.CodeMoved, "late evidence has settled it meanwhile; look again")
	p.Cause = ledger.ErrNumberMoved
	return p
}

// Cancel asks for the end of an intent: what was never sent ends at once, of anything else it is found out first what became of it.
func (s *Service) Cancel(ctx context.Context, k pawlclient.Key, c pawlclient.Cancel) (pawlclient.Intent, error) {
	key, err := keyOf(k)
	if err != nil {
		return pawlclient.Intent{}, err
	}
	a, err := s.action(ctx, "intent.cancel", key.String(), c.By, c.Reason)
	if err != nil {
		return pawlclient.Intent{}, err
	}
	var r ledger.Result
	err = s.audited(ctx, a, func() error {
		r, err = s.ledger.Move(ctx, key, ledger.RequestCancel{By: a.by, Reason: c.Reason})
		return problem(err, "body")
	})
	return ViewIntent(r.Intent), err
}

// action is what an operator asks for, with who and why checked. The reason is required.
func (s *Service) action(ctx context.Context, name, subject, by, reason string) (action, error) {
	actor, by, err := s.acting(ctx, by)
	if err == nil {
		err = needText("body.reason", reason, maxReason, "say why")
	}
	return action{actor: actor, by: by, name: name, subject: subject, detail: map[string]any{"reason": reason}}, err
}

// Resolve takes a probing fence on the row as it was shown, then writes the decision.
func (s *Service) Resolve(ctx context.Context, k pawlclient.Key, r pawlclient.Resolve) (pawlclient.Intent, error) {
	key, err := keyOf(k)
	if err != nil {
		return pawlclient.Intent{}, err
	}
	decisions := []ledger.Decision{ledger.DecideSent, ledger.DecideNotSent, ledger.DecideRetry, ledger.DecideUnknown}
	switch {
	case !slices.Contains(decisions, ledger.Decision(r.As)):
		return pawlclient.Intent{}, invalid("body.as", "must be sent, notsent, retry or unknown")
	case r.Number <= 0:
		return pawlclient.Intent{}, invalid("body.number", "is missing: give the fence_number that was shown")
	}
	a, err := s.action(ctx, "intent.resolve", key.String(), r.By, r.Reason)
	if err != nil {
		return pawlclient.Intent{}, err
	}
	a.detail["as"], a.detail["number"] = r.As, r.Number
	var i ledger.Intent
	err = s.audited(ctx, a, func() error {
		i, err = s.resolve(ctx, key, r, a.by)
		return problem(err, "body")
	})
	return ViewIntent(i), err
}

func (s *Service) resolve(ctx context.Context, k ledger.Key, r pawlclient.Resolve, by string) (ledger.Intent, error) {
	taken, err := s.ledger.Move(ctx, k, ledger.ProbeFence{
		Owner: "person-" + uuid.NewString(), TTL: resolveFence, ClockAllowance: s.allowance, Number: r.Number, Person: true,
	})
	if err != nil {
		return taken.Intent, err
	}
	if !taken.Applied {
		return taken.Intent, settledMeanwhile()
	}
	ctx, span := core.StartSpan(ctx, trace.SpanFromContext(ctx).TracerProvider().Tracer(scope), "pawl.resolve", taken.Intent)
	defer span.End()
	done, err := s.ledger.Move(ctx, k, ledger.Resolve{Fence: taken.Intent.Fence(), As: ledger.Decision(r.As), By: by, Reason: r.Reason})
	if err != nil {
		return done.Intent, fmt.Errorf("the decision could not be written, and the fence_number is another one now: %w", err)
	}
	if !done.Applied {
		return done.Intent, settledMeanwhile()
	}
	return done.Intent, nil
}

// Redrive claims an abandoned intent again under a new key, linked to it.
func (s *Service) Redrive(ctx context.Context, k pawlclient.Key, r pawlclient.Redrive) (pawlclient.ClaimResult, error) {
	key, err := keyOf(k)
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	a, err := s.action(ctx, "intent.redrive", key.String(), r.By, r.Reason)
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	if r.Approval != nil {
		if err := checkApproval(*r.Approval, "body.approval"); err != nil {
			return pawlclient.ClaimResult{}, err
		}
	}
	if r.AcceptDuplicates != "" && r.AcceptDuplicates != ledger.DuplicatesAcceptable {
		return pawlclient.ClaimResult{}, invalid("body.accept_duplicates", "must be %q, or left out", ledger.DuplicatesAcceptable)
	}
	a.detail["accept_duplicates"] = r.AcceptDuplicates
	var made ledger.ClaimResult
	err = s.audited(ctx, a, func() error {
		made, err = s.ledger.Redrive(ctx, ledger.Redrive{
			Key: key, By: a.by, Reason: r.Reason, AcceptDuplicates: r.AcceptDuplicates, Approval: (*ledger.Approval)(r.Approval),
		})
		return problem(err, "body")
	})
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	if made.Status == ledger.ClaimNew {
		s.wake(made.Intent.Channel)
	}
	view := ViewIntent(made.Intent)
	view.RedriveOf = key.EffectKey
	return pawlclient.ClaimResult{Status: string(made.Status), Intent: view}, nil
}
