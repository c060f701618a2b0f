package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

var errNoSigner = errors.New("this ledger was opened without a signer")

// sign issues a receipt. A signer that panics is one that fails.
func (l *Ledger) sign(e receipt.Effect) (r receipt.Receipt, err error) {
	if l.signer == nil {
		return r, errNoSigner
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the signer panicked: %v", p)
		}
	}()
	return l.signer.Issue(e)
}

// writeReceipts stores a receipt for each effect. One that cannot be signed now is owed, and blocks nothing.
func (s *session) writeReceipts(ctx context.Context, effects []receipt.Effect) error {
	for _, e := range effects {
		if err := s.writeReceipt(ctx, e); err != nil {
			return fmt.Errorf("store receipt of %s %s: %w", e.RunID, e.EffectKey, err)
		}
	}
	return nil
}

func (s *session) writeReceipt(ctx context.Context, e receipt.Effect) error {
	r, err := s.l.sign(e)
	if err != nil {
		return s.oweReceipt(ctx, e, err)
	}
	_, err = s.exec(ctx, `INSERT INTO receipts (id, run_id, effect_key, outcome, issue, issued_at, digest, envelope)
		VALUES (?, ?, ?, ?, `+nextIssue+`, ?, ?, ?)`,
		r.ID, e.RunID, e.EffectKey, string(e.Outcome), timeText(r.IssuedAt), r.Digest, r.Envelope)
	return err
}

func (s *session) oweReceipt(ctx context.Context, e receipt.Effect, cause error) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	id, err := newID()
	if err != nil {
		return err
	}
	s.l.logger.WarnContext(ctx, "a receipt is owed", "run_id", e.RunID, "effect_key", e.EffectKey, "outcome", e.Outcome, "error", cause)
	_, err = s.exec(ctx, "INSERT INTO receipts (id, run_id, effect_key, outcome, owed, reason, effect) VALUES (?, ?, ?, ?, 1, ?, ?)",
		id, e.RunID, e.EffectKey, string(e.Outcome), bounded(cause.Error()), string(raw))
	return err
}

// nextIssue names the condition of the index on issue, which is used only then.
const nextIssue = "coalesce((SELECT max(issue) FROM receipts WHERE issue IS NOT NULL), 0) + 1"

const receiptColumns = "id, run_id, effect_key, outcome, issued_at, digest, envelope, owed, reason"

func scanReceipt(scan func(...any) error, more ...any) (ledger.StoredReceipt, error) {
	var r ledger.StoredReceipt
	err := scan(append([]any{&r.ID, &r.Key.RunID, &r.Key.EffectKey, &r.Outcome, scanTime{&r.IssuedAt}, &r.Digest, &r.Envelope, &r.Owed,
		&r.Reason}, more...)...)
	return r, err
}

// ReceiptsOf implements [ledger.Receipts].
func (l *Ledger) ReceiptsOf(ctx context.Context, k ledger.Key) (all []ledger.StoredReceipt, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, "SELECT "+receiptColumns+" FROM receipts WHERE run_id = ? AND effect_key = ? ORDER BY seq",
			[]any{k.RunID, k.EffectKey}, func(scan func(...any) error) error {
				r, err := scanReceipt(scan)
				all = append(all, r)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read receipts of %s: %w", k, err)
	}
	return all, nil
}

// PayReceipts implements [ledger.Receipts]. Each is signed in a transaction with its storing, so that two payers pay it once; one that
// cannot be signed stays owed and stops no other.
func (l *Ledger) PayReceipts(ctx context.Context, limit int) (paid, owed int, err error) {
	var todo []int64
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		todo = nil
		return s.each(ctx, "SELECT seq FROM receipts WHERE owed = 1 ORDER BY seq LIMIT ?", []any{limit}, func(scan func(...any) error) error {
			var seq int64
			err := scan(&seq)
			todo = append(todo, seq)
			return err
		})
	})
	if err != nil {
		return 0, 0, fmt.Errorf("find owed receipts: %w", err)
	}
	for _, seq := range todo {
		ok := false
		err := l.writer.do(ctx, func(ctx context.Context, s *session) (err error) {
			ok, err = s.payReceipt(ctx, seq)
			return err
		})
		if err != nil {
			return paid, 0, fmt.Errorf("pay receipt: %w", err)
		}
		if ok {
			paid++
		}
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		return s.row(ctx, "SELECT count(*) FROM receipts WHERE owed = 1", nil, &owed)
	})
	if err != nil {
		return paid, 0, fmt.Errorf("count owed receipts: %w", err)
	}
	return paid, owed, nil
}

func (s *session) payReceipt(ctx context.Context, seq int64) (bool, error) {
	var raw string
	found, err := s.find(ctx, "SELECT effect FROM receipts WHERE seq = ? AND owed = 1", []any{seq}, &raw)
	if err != nil || !found {
		return false, err
	}
	e, err := owedEffect(raw)
	if err != nil {
		return false, s.stillOwed(ctx, seq, err)
	}
	r, err := s.l.sign(e)
	if err != nil {
		return false, s.stillOwed(ctx, seq, err)
	}
	n, err := s.exec(ctx, `UPDATE receipts SET id = ?, issued_at = ?, digest = ?, envelope = ?, owed = 0, reason = '',
		issue = `+nextIssue+` WHERE seq = ? AND owed = 1`,
		r.ID, timeText(r.IssuedAt), r.Digest, r.Envelope, seq)
	return n == 1, err
}

func (s *session) stillOwed(ctx context.Context, seq int64, cause error) error {
	_, err := s.exec(ctx, "UPDATE receipts SET reason = ? WHERE seq = ? AND owed = 1", bounded(cause.Error()), seq)
	return err
}

// owedEffect reads the effect of an owed receipt as it was written.
func owedEffect(raw string) (receipt.Effect, error) {
	var e receipt.Effect
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		return e, fmt.Errorf("read the effect: %w", err)
	}
	for _, m := range []*json.RawMessage{&e.ExternalRef, &e.Approval} {
		if string(*m) == "null" { // what was nil comes back as JSON's null
			*m = nil
		}
	}
	return e, nil
}
