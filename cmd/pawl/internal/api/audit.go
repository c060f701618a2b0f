package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Results of a row of the audit trail.
const (
	auditAsked   = "asked"
	auditDone    = "done"
	auditRefused = "refused"
)

// auditTimeout bounds the row that says what came of an action: it is written also if the caller has gone away.
const auditTimeout = 10 * time.Second

// action is what an operator asked for.
type action struct {
	actor   Actor
	by      string
	name    string // such as intent.resolve
	subject string
	detail  map[string]any // never a secret
}

// audited writes down that the action was asked for, does it, and writes down what came of it. If the first row cannot be written,
// nothing is done. If only the last one cannot, the action stands, and the trail shows one that was asked for and cut off. So it does where
// an error leaves open whether it was done: that it was refused would be untrue if only the answer to a commit is lost.
func (s *Service) audited(ctx context.Context, a action, do func() error) error {
	if err := s.ledger.AppendAudit(ctx, a.entry(auditAsked, nil)); err != nil {
		p := newProblem(pawlclient.CodeUnavailable, "nothing was done, because the audit trail could not be written: %s", err)
		p.RetryAfter, p.Cause = retryUnavailable, err
		return p
	}
	err := do()
	if p := (*pawlclient.Problem)(nil); errors.As(err, &p) && (p.Code == pawlclient.CodeUnavailable || p.Code == pawlclient.CodeInternal) {
		s.logger.WarnContext(ctx, "nobody knows whether an action was done", "action", a.name, "subject", a.subject, "error", err)
		return err
	}
	result := auditDone
	if err != nil {
		result = auditRefused
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if failed := s.ledger.AppendAudit(after, a.entry(result, err)); failed != nil {
		s.logger.ErrorContext(after, "the audit trail lacks what came of an action", "action", a.name, "subject", a.subject, "result", result, "error", failed)
	}
	return err
}

func (a action) entry(result string, err error) ledger.AuditEntry {
	detail := map[string]any{"by": a.by}
	for name, value := range a.detail {
		if value != "" && value != nil {
			detail[name] = value
		}
	}
	var p *pawlclient.Problem
	if errors.As(err, &p) {
		detail["code"] = p.Code
	}
	raw, failed := json.Marshal(detail)
	if failed != nil { // strings and numbers cannot fail
		raw = nil
	}
	return ledger.AuditEntry{Actor: a.actor.Name, TokenID: a.actor.TokenID, Action: a.name, Subject: a.subject, Detail: raw, Result: result}
}

// Audit lists the trail, newest first.
func (s *Service) Audit(ctx context.Context, limit int, after string) (pawlclient.AuditPage, error) {
	page := pawlclient.AuditPage{Entries: []pawlclient.AuditEntry{}}
	if err := checkPage(limit, after); err != nil {
		return page, err
	}
	entries, next, err := s.ledger.Audit(ctx, limit, ledger.Cursor(after))
	if err != nil {
		return page, problem(err, "query")
	}
	for _, e := range entries {
		page.Entries = append(page.Entries, pawlclient.AuditEntry{
			ID: e.ID, At: e.At, Actor: e.Actor, TokenID: e.TokenID, Action: e.Action, Subject: e.Subject, Detail: e.Detail, Result: e.Result,
		})
	}
	page.Next = string(next)
	return page, nil
}

// maxPage bounds a page of any list.
const maxPage = 1000

func checkPage(limit int, after string) error {
	if limit < 0 || limit > maxPage {
		return invalid("query.limit", "must be between 1 and %d, or 0 for 100; is %d", maxPage, limit)
	}
	return checkText("query.after", after, maxPlain)
}
