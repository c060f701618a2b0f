package sqlite

import (
	"context"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// selectAmiss reads a page of effect_intents in key order, beside what the queue and the lanes say of each.
const selectAmiss = `SELECT i.run_id, i.effect_key,
	CASE i.state WHEN 'intent' THEN
		q.phase IS NOT 'send' OR q.due_at > i.due_at
		OR q.turn_waiting <> coalesce(i.lane_position > (SELECT turn FROM lanes l WHERE l.lane = i.lane), 0)
	WHEN 'dispatched' THEN
		q.phase IS NOT 'look' OR q.turn_waiting <> 0 OR q.due_at > coalesce(i.probe_at, i.fence_expires_at)
	ELSE q.seq IS NOT NULL END
	OR (i.lane IS NOT NULL AND (i.state IN ('committed', 'abandoned') OR i.lane_turn_ended = 1)
		AND i.lane_position = (SELECT turn FROM lanes l WHERE l.lane = i.lane))
	FROM (SELECT run_id, effect_key, state, due_at, lane, lane_position, lane_turn_ended, probe_at, fence_expires_at FROM effect_intents WHERE (run_id, effect_key) > (?, ?) ORDER BY run_id, effect_key LIMIT ?) i
	LEFT JOIN dispatch_queue q ON q.run_id = i.run_id AND q.effect_key = i.effect_key`

// Scan implements [ledger.Moves]. It reads without the write lock and takes it only to mend, one row at a time, having looked again.
func (l *Ledger) Scan(ctx context.Context, after ledger.Key, limit int) (out ledger.ScanResult, err error) {
	if limit <= 0 {
		return out, &ledger.InvalidError{Field: "limit", Reason: "must be positive"}
	}
	var amiss []ledger.Key
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		out, amiss = ledger.ScanResult{Next: after}, nil
		return s.each(ctx, selectAmiss, []any{after.RunID, after.EffectKey, limit}, func(scan func(...any) error) error {
			var k ledger.Key
			var bad bool
			if err := scan(&k.RunID, &k.EffectKey, &bad); err != nil {
				return err
			}
			out.Seen++
			out.Next = k
			if bad {
				amiss = append(amiss, k)
			}
			return nil
		})
	})
	if err != nil {
		return out, fmt.Errorf("scan: %w", err)
	}
	out.Done = out.Seen < limit
	for _, k := range amiss {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		err := l.writer.do(ctx, func(ctx context.Context, s *session) error { return s.mend(ctx, k) })
		if err != nil { // one bad row never stops the scan
			l.logger.ErrorContext(ctx, "the queue could not be mended", "run_id", k.RunID, "effect_key", k.EffectKey, "error", err)
			continue
		}
		out.Repaired++
	}
	return out, nil
}

// mend makes the queue and the lane what the row says.
func (s *session) mend(ctx context.Context, k ledger.Key) error {
	i, err := s.intent(ctx, k)
	if err != nil {
		return err
	}
	if i.Lane != "" && (i.State.Terminal() || i.LaneTurnEnded) {
		if err := s.endTurn(ctx, i); err != nil {
			return err
		}
	}
	phase, due := wanted(i)
	return s.writeQueue(ctx, i, phase, due)
}
