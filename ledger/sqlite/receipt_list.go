package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawlworks/pawl/ledger"
)

// receiptPage is how many receipts are read in one transaction: a long one would keep the log of the database from being cut.
const receiptPage = 200

// listed is a receipt with its place in the order of issue. There is one writer, so places are given out in order of commit.
type listed struct {
	ledger.StoredReceipt
	issue int64
}

// selectReceipts is the query of a page. One run's receipts are few: with the plus, the order of issue is no index to go by.
func selectReceipts(runID string) string {
	where, order := "issue > ?", "issue"
	if runID != "" {
		where, order = "run_id = ? AND +issue > ?", "+issue"
	}
	return "SELECT " + receiptColumns + ", issue FROM receipts WHERE " + where + " ORDER BY " + order + " LIMIT ?"
}

// listReceipts reads issued receipts after a place.
func (l *Ledger) listReceipts(ctx context.Context, runID string, after int64, limit int) (page []listed, err error) {
	args := []any{after, limit}
	if runID != "" {
		args = []any{runID, after, limit}
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		page = nil
		return s.each(ctx, selectReceipts(runID), args,
			func(scan func(...any) error) error {
				var one listed
				var err error
				one.StoredReceipt, err = scanReceipt(scan, &one.issue)
				page = append(page, one)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	return page, nil
}

// AllReceipts implements [ledger.Receipts]. It reads a page at a time and holds no transaction open while f runs.
func (l *Ledger) AllReceipts(ctx context.Context, f func(ledger.StoredReceipt) error) error {
	for after := int64(0); ; {
		page, err := l.listReceipts(ctx, "", after, receiptPage)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r.StoredReceipt); err != nil {
				return err
			}
			after = r.issue
		}
		if len(page) < receiptPage {
			return nil
		}
	}
}

// ReceiptPage implements [ledger.Receipts].
func (l *Ledger) ReceiptPage(ctx context.Context, f ledger.ReceiptFilter) (all []ledger.StoredReceipt, next ledger.Cursor, err error) {
	var after int64
	if f.After != "" {
		if after, err = strconv.ParseInt(string(f.After), 10, 64); err != nil {
			return nil, "", &ledger.InvalidError{Field: "after", Reason: "is no cursor of this ledger; pass what the page before returned"}
		}
	}
	limit := pageLimit(f.Limit)
	page, err := l.listReceipts(ctx, f.RunID, after, limit)
	if err != nil {
		return nil, "", err
	}
	for _, r := range page {
		all = append(all, r.StoredReceipt)
	}
	if len(page) == limit {
		next = ledger.Cursor(strconv.FormatInt(page[limit-1].issue, 10))
	}
	return all, next, nil
}

// Receipt implements [ledger.Receipts].
func (l *Ledger) Receipt(ctx context.Context, id string) (r ledger.StoredReceipt, err error) {
	found := false
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		found = false
		return s.each(ctx, "SELECT "+receiptColumns+" FROM receipts WHERE id = ?", []any{id}, func(scan func(...any) error) error {
			found = true
			r, err = scanReceipt(scan)
			return err
		})
	})
	if err == nil && !found {
		err = ledger.ErrNoReceipt
	}
	if err != nil {
		return ledger.StoredReceipt{}, fmt.Errorf("receipt %.64q: %w", id, err)
	}
	return r, nil
}
