package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// receiptRow is a row to insert: signed, or owed with what is to be signed.
type receiptRow struct {
	id      string
	effect  receipt.Effect
	issued  *time.Time
	digest  string
	content *string // the envelope; nil while it is owed
	reason  string
	raw     *string // the effect, while it is owed
	now     time.Time
}

var errNoSigner = errors.New("no signer is configured")

// sign makes the row of one receipt. A receipt that cannot be signed is owed and blocks nothing.
func (l *Ledger) sign(e receipt.Effect, now time.Time) (receiptRow, error) {
	row := receiptRow{effect: e, now: now}
	signed, err := l.issue(e)
	if err == nil {
		issued, envelope := signed.IssuedAt, string(signed.Envelope)
		row.id, row.issued, row.digest, row.content = signed.ID, &issued, signed.Digest, &envelope
		return row, nil
	}
	if !errors.Is(err, errNoSigner) {
		l.logger.Warn("a receipt is owed", "run_id", e.RunID, "effect_key", e.EffectKey, "error", err)
	}
	id, idErr := uuid.NewV7()
	if idErr != nil {
		return row, fmt.Errorf("make an id: %w", idErr)
	}
	raw, jsonErr := json.Marshal(e)
	if jsonErr != nil {
		return row, fmt.Errorf("encode what a receipt is owed for: %w", jsonErr)
	}
	text := string(raw)
	row.id, row.reason, row.raw = id.String(), bounded(err.Error()), &text
	return row, nil
}

func (l *Ledger) issue(e receipt.Effect) (receipt.Receipt, error) {
	if l.signer == nil {
		return receipt.Receipt{}, errNoSigner
	}
	r, err := l.signer.Issue(e)
	if err != nil {
		return receipt.Receipt{}, err
	}
	if _, err := uuid.Parse(r.ID); err != nil || len(r.Envelope) == 0 {
		return receipt.Receipt{}, fmt.Errorf("the signer made a receipt without a UUID or an envelope: %q", r.ID)
	}
	return r, nil
}

func (w *writer) queueReceipts(s sink) {
	n := len(w.paper)
	if n == 0 {
		return
	}
	ids, runs, keys, outcomes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	issued, digests, envelopes := make([]*time.Time, n), make([]string, n), make([]*string, n)
	reasons, effects, created := make([]string, n), make([]*string, n), make([]time.Time, n)
	for i, r := range w.paper {
		ids[i], runs[i], keys[i], outcomes[i] = r.id, r.effect.RunID, r.effect.EffectKey, string(r.effect.Outcome)
		issued[i], digests[i], envelopes[i] = r.issued, r.digest, r.content
		reasons[i], effects[i], created[i] = r.reason, r.raw, r.now
	}
	s.put(w.l.sql.receipt, ids, runs, keys, outcomes, issued, digests, envelopes, reasons, effects, created)
}

const receiptColumns = `id::text, run_id::text, effect_key, outcome, issued_at, digest, envelope, owed, reason`

func scanReceipt(row pgx.Row, more ...any) (ledger.StoredReceipt, error) {
	var r ledger.StoredReceipt
	var issued *time.Time
	var envelope *string
	err := row.Scan(append([]any{&r.ID, &r.Key.RunID, &r.Key.EffectKey, (*string)(&r.Outcome), &issued, &r.Digest, &envelope, &r.Owed, &r.Reason}, more...)...)
	r.IssuedAt = utc(issued)
	if envelope != nil {
		r.Envelope = []byte(*envelope)
	}
	return r, err
}

// ReceiptsOf returns an intent's receipts, oldest first. [ledger.Ledger].
func (l *Ledger) ReceiptsOf(ctx context.Context, k ledger.Key) ([]ledger.StoredReceipt, error) {
	if checkKey(k) != nil {
		return nil, nil
	}
	var all []ledger.StoredReceipt
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE run_id = $1::uuid AND effect_key = $2 ORDER BY created_at, id`, receiptColumns, l.table("receipts")),
			k.RunID, k.EffectKey).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				r, err := scanReceipt(rows)
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// PayReceipts signs owed receipts. One that still cannot be signed keeps its reason and stops no other. [ledger.Ledger].
func (l *Ledger) PayReceipts(ctx context.Context, limit int) (paid, owed int, err error) {
	if limit <= 0 {
		limit = receiptPage
	}
	err = l.transact(ctx, func(ctx context.Context, s *session) error {
		paid = 0
		type due struct {
			id     string
			effect receipt.Effect
		}
		var page []due
		s.queue(fmt.Sprintf(`SELECT id::text, effect::text FROM %s WHERE owed ORDER BY created_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`, l.table("receipts")), limit).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var d due
					var raw string
					if err := rows.Scan(&d.id, &raw); err != nil {
						return err
					}
					if err := json.Unmarshal([]byte(raw), &d.effect); err != nil {
						return fmt.Errorf("read what receipt %s is owed for: %w", d.id, err)
					}
					page = append(page, d)
				}
				return rows.Err()
			})
		if err := s.flush(ctx); err != nil {
			return err
		}
		for _, d := range page {
			signed, err := l.issue(d.effect)
			if err != nil {
				s.queue(fmt.Sprintf(`UPDATE %s SET reason = $2 WHERE id = $1::uuid AND reason <> $2`, l.table("receipts")), d.id, bounded(err.Error()))
				continue
			}
			paid++
			s.queue(fmt.Sprintf(`UPDATE %s SET id = $2::uuid, issued_at = $3, digest = $4, envelope = $5, owed = false, reason = '', issue = %s WHERE id = $1::uuid AND owed`,
				l.table("receipts"), l.issueNumber()),
				d.id, signed.ID, signed.IssuedAt, signed.Digest, string(signed.Envelope))
		}
		s.queue(`SELECT count(*) FROM ` + l.table("receipts") + ` WHERE owed`).QueryRow(func(r pgx.Row) error { return r.Scan(&owed) })
		return s.commit(ctx)
	})
	return paid, owed, err
}
