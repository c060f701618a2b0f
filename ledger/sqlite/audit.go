package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// AppendAudit implements [ledger.Access].
func (l *Ledger) AppendAudit(ctx context.Context, e ledger.AuditEntry) error {
	e, err := e.Normal()
	if err != nil {
		return fmt.Errorf("append to the audit trail: %w", err)
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		at := e.At
		if at.IsZero() {
			if at, err = s.now(ctx); err != nil {
				return err
			}
		}
		// The id makes a second try, after a COMMIT whose answer is lost, harmless.
		_, err := s.exec(ctx, `INSERT INTO audit_log (id, at, actor, token_id, action, subject, detail, result)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE id = ?1)`,
			e.ID, timeText(at), e.Actor, e.TokenID, e.Action, e.Subject, rawText(e.Detail), e.Result)
		return err
	})
	if err != nil {
		return fmt.Errorf("append to the audit trail: %w", err)
	}
	return nil
}

// Audit implements [ledger.Access].
func (l *Ledger) Audit(ctx context.Context, limit int, after ledger.Cursor) (all []ledger.AuditEntry, next ledger.Cursor, err error) {
	limit = pageLimit(limit)
	where, args := "", []any{}
	if after != "" {
		at, id, found := strings.Cut(string(after), " ")
		if _, err := time.Parse(timeLayout, at); err != nil || !found {
			return nil, "", &ledger.InvalidError{Field: "after", Reason: "is no cursor of this ledger; pass what the page before returned"}
		}
		where, args = "WHERE (at, id) < (?, ?)", []any{at, id}
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all, next = nil, ""
		return s.each(ctx, "SELECT id, at, actor, token_id, action, subject, detail, result FROM audit_log "+where+" ORDER BY at DESC, id DESC LIMIT ?",
			append(args, limit+1), func(scan func(...any) error) error {
				var e ledger.AuditEntry
				var detail *string
				if err := scan(&e.ID, scanTime{&e.At}, &e.Actor, &e.TokenID, &e.Action, &e.Subject, &detail, &e.Result); err != nil {
					return err
				}
				if len(all) == limit { // one more than was asked for: there is another page
					last := all[limit-1]
					next = ledger.Cursor(last.At.Format(timeLayout) + " " + last.ID)
					return nil
				}
				e.Detail = json.RawMessage(rawJSON(detail))
				all = append(all, e)
				return nil
			})
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the audit trail: %w", err)
	}
	return all, next, nil
}

// pageLimit is how many rows a page has.
func pageLimit(asked int) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(asked, maxPage)
}
