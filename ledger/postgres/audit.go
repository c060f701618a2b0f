package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// AppendAudit adds a row to the audit trail. [ledger.Access].
func (l *Ledger) AppendAudit(ctx context.Context, e ledger.AuditEntry) error {
	e, err := e.Normal()
	if err != nil {
		return fmt.Errorf("append to the audit trail: %w", err)
	}
	// The id makes a second try, after a COMMIT whose answer is lost, harmless.
	sql := fmt.Sprintf(`INSERT INTO %s (id, at, actor, token_id, action, subject, detail, result)
VALUES ($1::uuid, coalesce($2, clock_timestamp()), $3, $4, $5, $6, $7::text::json, $8) ON CONFLICT DO NOTHING`, l.table("audit_log"))
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue(sql, e.ID, timeOrNull(e.At), e.Actor, e.TokenID, e.Action, e.Subject, jsonOrNull(e.Detail), e.Result)
		return s.commit(ctx)
	})
}

// Audit lists the trail, newest first. [ledger.Access].
func (l *Ledger) Audit(ctx context.Context, limit int, after ledger.Cursor) ([]ledger.AuditEntry, ledger.Cursor, error) {
	limit = pageLimit(limit)
	where, args := "", []any{limit}
	if after != "" {
		at, k, err := openCursor(after)
		if err != nil {
			return nil, "", err
		}
		where, args = "WHERE (at, id) < ($2, $3::uuid)", append(args, at, k.RunID)
	}
	sql := fmt.Sprintf(`SELECT id::text, at, actor, token_id, action, subject, detail::text, result FROM %s %s ORDER BY at DESC, id DESC LIMIT $1`,
		l.table("audit_log"), where)
	var all []ledger.AuditEntry
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(sql, args...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var e ledger.AuditEntry
				var detail *string
				if err := rows.Scan(&e.ID, &e.At, &e.Actor, &e.TokenID, &e.Action, &e.Subject, &detail, &e.Result); err != nil {
					return err
				}
				e.At = e.At.UTC()
				if detail != nil {
					e.Detail = json.RawMessage(*detail)
				}
				all = append(all, e)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	if err != nil || len(all) < limit {
		return all, "", err
	}
	last := all[len(all)-1]
	return all, cursorAt(last.At, last.ID, ""), nil
}

// pageLimit is how many rows a page has.
func pageLimit(asked int) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(asked, maxPage)
}
