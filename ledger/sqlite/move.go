package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// Move implements [ledger.Moves].
func (l *Ledger) Move(ctx context.Context, k ledger.Key, m ledger.Move) (r ledger.Result, err error) {
	if m == nil {
		return r, &ledger.InvalidError{Field: "move", Reason: "is nil; name the move"}
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		r, err = s.move(ctx, k, m)
		return err
	})
	return r, err
}

// move reads, asks ledger.Apply and writes what it says.
func (s *session) move(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	snap, err := s.snapshot(ctx, k)
	if err != nil {
		return ledger.Result{}, err
	}
	return s.decide(ctx, snap, m)
}

// decide makes the move on what was read.
func (s *session) decide(ctx context.Context, snap ledger.Snapshot, m ledger.Move) (ledger.Result, error) {
	if _, fences := m.(ledger.Fence); fences && snap.Found {
		if err := s.turnCome(ctx, snap.Intent); err != nil {
			return ledger.Result{Intent: snap.Intent, Now: snap.Now}, fmt.Errorf("fence: %w", err)
		}
	}
	change, err := ledger.Apply(snap, m)
	if err != nil {
		return change.Result, err
	}
	if change.EvidenceID != "" {
		taken, err := s.evidenceTaken(ctx, snap.Intent, change.EvidenceID)
		if err != nil {
			return ledger.Result{}, err
		}
		if taken {
			snap.EvidenceTaken = true
			if change, err = ledger.Apply(snap, m); err != nil {
				return change.Result, err
			}
		}
	}
	if err := s.write(ctx, snap, change); err != nil {
		return ledger.Result{}, err
	}
	return change.Result, nil
}

// evidenceTaken reports whether another intent of the channel has the evidence id.
func (s *session) evidenceTaken(ctx context.Context, i ledger.Intent, id string) (bool, error) {
	var taken bool
	err := s.row(ctx, "SELECT EXISTS (SELECT 1 FROM evidence_ids WHERE channel = ? AND evidence_id = ? AND NOT (run_id = ? AND effect_key = ?))",
		[]any{i.Channel, id, i.RunID, i.EffectKey}, &taken)
	if err != nil {
		return false, fmt.Errorf("look for evidence id: %w", err)
	}
	return taken, nil
}

// write writes a change, all of it or, with an error, none: the transaction is then rolled back.
func (s *session) write(ctx context.Context, snap ledger.Snapshot, c ledger.Change) error {
	k := snap.Key
	if err := s.writeSteps(ctx, c.Steps); err != nil {
		return err
	}
	if c.NewToken != nil {
		if err := s.writeToken(ctx, snap.Intent, *c.NewToken, c.RaiseLane); err != nil {
			return err
		}
	}
	if c.TokensDead {
		if _, err := s.exec(ctx, "UPDATE effect_tokens SET dead_at = ? WHERE run_id = ? AND effect_key = ? AND dead_at IS NULL",
			timeText(snap.Now), k.RunID, k.EffectKey); err != nil {
			return fmt.Errorf("mark tokens dead: %w", err)
		}
	}
	if c.EvidenceID != "" {
		if _, err := s.exec(ctx, "INSERT INTO evidence_ids (channel, evidence_id, run_id, effect_key) SELECT ?1, ?2, ?3, ?4"+
			" WHERE NOT EXISTS (SELECT 1 FROM evidence_ids WHERE channel = ?1 AND evidence_id = ?2)",
			snap.Intent.Channel, c.EvidenceID, k.RunID, k.EffectKey); err != nil {
			return fmt.Errorf("record evidence id: %w", err)
		}
	}
	if err := s.writeLate(ctx, snap, c); err != nil {
		return err
	}
	if len(c.Steps) > 0 {
		if err := s.writeQueue(ctx, c.Result.Intent, c.Phase, c.DueAt); err != nil {
			return err
		}
	}
	if c.EndTurn {
		if err := s.endTurn(ctx, snap.Intent); err != nil {
			return err
		}
	}
	if err := s.writeLog(ctx, snap.Now, c.Log); err != nil {
		return err
	}
	return s.writeReceipts(ctx, c.Receipts)
}

// errMoved says that a row changed under the write lock: a trigger of somebody else's, for instance.
var errMoved = errors.New("the intent was moved by something else in the same transaction")

func (s *session) writeSteps(ctx context.Context, steps []ledger.Step) error {
	for _, step := range steps {
		values, err := stepValues(step)
		if err != nil {
			return err
		}
		n, err := s.exec(ctx, updateStep, values...)
		if err != nil {
			return fmt.Errorf("write intent %s: %w", step.To.Key, err)
		}
		if n != 1 {
			return fmt.Errorf("write intent %s: %w: %w", step.To.Key, ledger.ErrFenceLost, errMoved)
		}
	}
	return nil
}

func (s *session) writeLate(ctx context.Context, snap ledger.Snapshot, c ledger.Change) error {
	if late := c.NewLate; late != nil {
		id, err := newID()
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, `INSERT INTO late_evidence (id, run_id, effect_key, ledger_epoch, fence_epoch, fence_owner, attempt,
			outcome, evidence, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, id, late.Key.RunID, late.Key.EffectKey, late.Fence.Epoch,
			late.Fence.Number, late.Fence.Owner, late.Attempt, string(late.Outcome), rawText(late.Evidence), late.Reason,
			timeText(late.At)); err != nil {
			return fmt.Errorf("keep late evidence: %w", err)
		}
	}
	for _, id := range c.UsedLate {
		if _, err := s.exec(ctx, "UPDATE late_evidence SET used_at = ? WHERE id = ? AND used_at IS NULL", timeText(snap.Now), id); err != nil {
			return fmt.Errorf("mark late evidence as used: %w", err)
		}
	}
	return nil
}
