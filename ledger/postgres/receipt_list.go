package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// receiptPage is how many receipts AllReceipts reads at once.
const receiptPage = 500

// issueNumber is the place of a receipt in the order of issue: that of its transaction. Within one, ids decide.
func (l *Ledger) issueNumber() string {
	return fmt.Sprintf(`(SELECT base + pg_current_xact_id()::text::bigint FROM %s)`, l.table("receipt_order"))
}

// issuePlace is a receipt's place in the order of issue.
type issuePlace struct {
	issue int64
	id    string
}

// firstPlace is before all.
func firstPlace() issuePlace { return issuePlace{issue: -1, id: uuid.Nil.String()} }

// listed is a receipt with its place. It is settled if no transaction is open that could still put one before it.
type listed struct {
	ledger.StoredReceipt
	issue   int64
	settled bool
}

// listReceipts reads issued receipts after a place. The snapshot that says which transactions are open is the one that sees the rows.
func (l *Ledger) listReceipts(ctx context.Context, runID string, after issuePlace, limit int) ([]listed, error) {
	from, args := l.table("receipts"), []any{after.issue, after.id, limit}
	if runID != "" { // first the run's own, which are few: in the order of issue it would read everybody's
		from = fmt.Sprintf(`(SELECT * FROM %s WHERE run_id = $4::uuid OFFSET 0) AS of_run`, from)
		args = append(args, runID)
	}
	sql := fmt.Sprintf(`SELECT %s, issue, issue < (SELECT base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM %s)
FROM %s WHERE NOT owed AND (issue, id) > ($1::bigint, $2::uuid) ORDER BY issue, id LIMIT $3`, receiptColumns, l.table("receipt_order"), from)
	var page []listed
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		page = nil
		s.queue(sql, args...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var one listed
				var err error
				if one.StoredReceipt, err = scanReceipt(rows, &one.issue, &one.settled); err != nil {
					return err
				}
				page = append(page, one)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return page, err
}

// AllReceipts calls f for every receipt that was issued, in order of issue, a page at a time. [ledger.Ledger].
func (l *Ledger) AllReceipts(ctx context.Context, f func(ledger.StoredReceipt) error) error {
	for after := firstPlace(); ; {
		page, err := l.listReceipts(ctx, "", after, receiptPage)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r.StoredReceipt); err != nil {
				return err
			}
			after = issuePlace{r.issue, r.ID}
		}
		if len(page) < receiptPage {
			return nil
		}
	}
}

// ReceiptPage lists issued receipts in order of issue. [ledger.Ledger].
func (l *Ledger) ReceiptPage(ctx context.Context, f ledger.ReceiptFilter) ([]ledger.StoredReceipt, ledger.Cursor, error) {
	limit, after := pageLimit(f.Limit), firstPlace()
	if f.After != "" {
		var err error
		if after, err = openPlace(f.After); err != nil {
			return nil, "", err
		}
	}
	if f.RunID != "" && !isUUID(f.RunID) {
		return nil, "", nil
	}
	page, err := l.listReceipts(ctx, f.RunID, after, limit)
	if err != nil {
		return nil, "", err
	}
	all := make([]ledger.StoredReceipt, len(page))
	settled := 0
	for n, r := range page {
		all[n] = r.StoredReceipt
		if r.settled && settled == n {
			settled++
		}
	}
	if len(page) < limit || settled == 0 {
		return all, "", nil
	}
	last := page[settled-1]
	return all[:settled], closePlace(issuePlace{last.issue, last.ID}), nil
}

// Receipt returns one receipt. [ledger.Ledger].
func (l *Ledger) Receipt(ctx context.Context, id string) (r ledger.StoredReceipt, err error) {
	if !isUUID(id) {
		return r, fmt.Errorf("receipt %.64q: %w", id, ledger.ErrNoReceipt)
	}
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE id = $1::uuid`, receiptColumns, l.table("receipts")), id).QueryRow(func(row pgx.Row) error {
			r, err = scanReceipt(row)
			return err
		})
		return s.flush(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.StoredReceipt{}, fmt.Errorf("receipt %s: %w", id, ledger.ErrNoReceipt)
	}
	return r, err
}

func closePlace(p issuePlace) ledger.Cursor {
	return ledger.Cursor(base64.RawURLEncoding.EncodeToString([]byte(jsonText([]any{p.issue, p.id}))))
}

func openPlace(c ledger.Cursor) (p issuePlace, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		var parts []json.RawMessage
		if err = json.Unmarshal(raw, &parts); err == nil && len(parts) == 2 {
			err = errors.Join(json.Unmarshal(parts[0], &p.issue), json.Unmarshal(parts[1], &p.id))
		}
		if !isUUID(p.id) {
			err = errors.New("no id")
		}
	}
	if err != nil {
		return p, &ledger.InvalidError{Field: "cursor", Reason: "is none that this ledger gave out; begin with an empty one"}
	}
	return p, nil
}

// raiseReceiptOrder makes what is issued from now on come after what is there, where a dump was restored on a server whose transactions
// count from less.
func (l *Ledger) raiseReceiptOrder(ctx context.Context) error {
	t := []any{l.table("receipts"), l.table("receipt_order")}
	// No row that is seen can have a number that is not given out yet, unless it is another server's.
	const behind = `(SELECT max(issue) FROM %[1]s WHERE NOT owed) >= base + pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
	var restored bool
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`SELECT coalesce(`+behind+`, false) FROM %[2]s`, t...)).QueryRow(func(row pgx.Row) error { return row.Scan(&restored) })
		return s.flush(ctx)
	})
	if err != nil || !restored {
		return err
	}
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`UPDATE %[2]s SET base = (SELECT max(issue) FROM %[1]s WHERE NOT owed) + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint
WHERE `+behind, t...))
		return s.commit(ctx)
	})
}
