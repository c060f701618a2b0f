package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// writeQueue makes the intent's row of the queue what it should be.
func (s *session) writeQueue(ctx context.Context, i ledger.Intent, phase ledger.Phase, due time.Time) error {
	if phase == ledger.PhaseDone {
		return s.dropQueue(ctx, i.Key)
	}
	waiting := false
	if phase == ledger.PhaseSend && i.Lane != "" && !i.LaneTurnEnded {
		turn, _, err := s.lane(ctx, i.Lane)
		if err != nil {
			return err
		}
		waiting = i.LanePosition > turn
	}
	if due.IsZero() {
		due = i.CreatedAt
	}
	if _, err := s.exec(ctx, `INSERT INTO dispatch_queue (run_id, effect_key, channel, phase, due_at, lane, turn_waiting)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, effect_key) DO UPDATE SET phase = excluded.phase, due_at = excluded.due_at,
		turn_waiting = excluded.turn_waiting`, i.RunID, i.EffectKey, i.Channel, string(phase), timeText(due), nullText(i.Lane), waiting); err != nil {
		return fmt.Errorf("queue %s: %w", i.Key, err)
	}
	return nil
}

func (s *session) dropQueue(ctx context.Context, k ledger.Key) error {
	if _, err := s.exec(ctx, "DELETE FROM dispatch_queue WHERE run_id = ? AND effect_key = ?", k.RunID, k.EffectKey); err != nil {
		return fmt.Errorf("drop %s from the queue: %w", k, err)
	}
	return nil
}

// wanted is the row of the queue that an intent should have.
func wanted(i ledger.Intent) (ledger.Phase, time.Time) {
	switch i.State {
	case ledger.StateIntent:
		return ledger.PhaseSend, i.DueAt
	case ledger.StateDispatched:
		if !i.ProbeAt.IsZero() {
			return ledger.PhaseLook, i.ProbeAt
		}
		return ledger.PhaseLook, i.FenceExpiresAt
	}
	return ledger.PhaseDone, time.Time{}
}

func nullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}
