package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlworks/pawl/ledger"
)

// maxScan bounds one page.
const maxScan = 5000

// hinted is a row beside its hint.
type hinted struct {
	row   intentRow
	phase *string
	due   *time.Time
}

// wrong reports whether the hint would let the row be forgotten, or has nobody to look at it. A hint that is too early costs one look.
func (h *hinted) wrong() bool {
	phase, due := hintOf(h.row.intent)
	if phase == ledger.PhaseDone {
		return h.phase != nil
	}
	return h.phase == nil || *h.phase != string(phase) || h.due.After(due)
}

// Scan compares one page of intents with the queue and mends the queue. [ledger.Ledger].
func (l *Ledger) Scan(ctx context.Context, after ledger.Key, limit int) (ledger.ScanResult, error) {
	if limit <= 0 {
		limit = maxScan
	}
	limit = min(limit, maxScan)
	if after.RunID == "" {
		after.RunID = uuid.Nil.String()
	} else if err := checkKey(after); err != nil {
		return ledger.ScanResult{}, err
	}
	var out ledger.ScanResult
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		out = ledger.ScanResult{}
		suspects, err := s.page(ctx, after, limit, &out)
		if err != nil {
			return err
		}
		if len(suspects) > 0 {
			if err := s.mend(ctx, suspects, &out); err != nil {
				return err
			}
		}
		if out.Done {
			s.queueStrays(&out)
		}
		if s.batch.Len() == 0 {
			return nil
		}
		return s.commit(ctx)
	})
	return out, err
}

// page reads a page, narrow and unlocked, and returns the rows to look at under their lock. A row that lives in a lane is looked at, too,
// if it waits for a turn that has come.
func (s *session) page(ctx context.Context, after ledger.Key, limit int, out *ledger.ScanResult) ([]ledger.Key, error) {
	var suspects []ledger.Key
	s.queue(fmt.Sprintf(`SELECT p.run_id::text, p.effect_key,
coalesce(CASE WHEN p.state IN ('committed', 'abandoned') THEN q.seq IS NOT NULL OR (l.turn IS NOT NULL AND l.turn = p.lane_position)
 ELSE q.seq IS NULL OR q.phase <> CASE p.state WHEN 'intent' THEN 'send' ELSE 'look' END
 OR q.due_at > CASE WHEN p.state = 'intent' THEN p.due_at WHEN p.fence_owner = '' THEN coalesce(p.probe_at, p.fence_expires_at) ELSE p.fence_expires_at END
 OR (l.turn = p.lane_position AND (q.turn_waiting OR p.lane_turn_ended))
 OR (l.turn < p.lane_position AND NOT EXISTS (SELECT FROM %s h WHERE h.lane = p.lane AND h.lane_position = l.turn)) END, false)
FROM (SELECT run_id, effect_key, channel, state, due_at, fence_owner, fence_expires_at, probe_at, queue_seq, lane, lane_position, lane_turn_ended
 FROM %s WHERE (run_id, effect_key) > ($1::uuid, $2) ORDER BY run_id, effect_key LIMIT $3) p
LEFT JOIN %s q ON q.seq = p.queue_seq AND q.run_id = p.run_id AND q.effect_key = p.effect_key AND q.channel = p.channel LEFT JOIN %s l ON l.lane = p.lane ORDER BY p.run_id, p.effect_key`,
		s.l.table("effect_intents"), s.l.table("effect_intents"), s.l.table("dispatch_queue"), s.l.table("lanes")), after.RunID, after.EffectKey, limit).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var k ledger.Key
				var suspect bool
				if err := rows.Scan(&k.RunID, &k.EffectKey, &suspect); err != nil {
					return err
				}
				out.Seen++
				out.Next = k
				if suspect {
					suspects = append(suspects, k)
				}
			}
			return rows.Err()
		})
	err := s.flush(ctx)
	out.Done = out.Seen < limit
	return suspects, err
}

// queueStrays takes away, at the end of the table, queue rows that are no live intent's own.
func (s *session) queueStrays(out *ledger.ScanResult) {
	s.queue(fmt.Sprintf(`DELETE FROM %[1]s WHERE seq IN (SELECT q.seq FROM %[1]s q WHERE NOT EXISTS (SELECT FROM %[2]s i
WHERE i.run_id = q.run_id AND i.effect_key = q.effect_key AND i.queue_seq = q.seq AND i.state IN ('intent', 'dispatched'))
LIMIT %[3]d FOR UPDATE OF q SKIP LOCKED)`, s.l.table("dispatch_queue"), s.l.table("effect_intents"), maxScan)).
		Exec(func(tag pgconn.CommandTag) error {
			out.Repaired += int(tag.RowsAffected())
			return nil
		})
}

// mend looks again at the rows under their locks, skipping those that somebody moves just now, and writes the hints anew.
func (s *session) mend(ctx context.Context, suspects []ledger.Key, out *ledger.ScanResult) error {
	runs, names := split(suspects)
	var page []*hinted
	s.queue(fmt.Sprintf(`SELECT FROM unnest($1::uuid[], $2::text[]) AS u(run_id, effect_key)
JOIN %s i ON i.run_id = u.run_id AND i.effect_key = u.effect_key ORDER BY i.run_id, i.effect_key FOR UPDATE OF i SKIP LOCKED`,
		s.l.table("effect_intents")), runs, names)
	// A row that was skipped is left out by asking for the lock once more.
	s.queue(fmt.Sprintf(`WITH held AS MATERIALIZED (SELECT %s FROM unnest($1::uuid[], $2::text[]) AS u(run_id, effect_key)
JOIN %s i ON i.run_id = u.run_id AND i.effect_key = u.effect_key FOR UPDATE OF i SKIP LOCKED)
SELECT held.*, q.phase, q.due_at FROM held LEFT JOIN %s q ON q.seq = held.queue_seq AND q.run_id::text = held.run_id AND q.effect_key = held.effect_key AND q.channel = held.channel ORDER BY held.queue_seq`,
		intentColumns, s.l.table("effect_intents"), s.l.table("dispatch_queue")), runs, names).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				h := &hinted{}
				if err := rows.Scan(append(h.row.targets(), &h.phase, &h.due)...); err != nil {
					return err
				}
				if err := h.row.finish(); err != nil {
					s.l.logger.Error("an intent cannot be read", "intent", h.row.intent.Key.String(), "error", err)
					continue // one bad row stops no other
				}
				page = append(page, h)
			}
			return rows.Err()
		})
	if err := s.flush(ctx); err != nil {
		return err
	}
	w := &writer{l: s.l}
	for _, h := range page {
		i := h.row.intent
		if i.Lane != "" && (i.State.Terminal() || i.LaneTurnEnded) {
			w.turns = append(w.turns, turn{i.Lane, i.LanePosition}) // changes nothing unless it is this place's turn
		}
		if !h.wrong() {
			continue
		}
		out.Repaired++
		if phase, due := hintOf(i); phase == ledger.PhaseDone {
			w.remove = append(w.remove, h.row.seq)
		} else {
			w.upsert = append(w.upsert, queueRow{h.row.seq, i.Key, i.Channel, phase, due})
		}
	}
	w.queue(s)
	for _, h := range page { // after the lanes: everybody locks lanes before queue rows
		if i := h.row.intent; i.Lane != "" && !i.State.Terminal() {
			s.queue(fmt.Sprintf(`UPDATE %s q SET turn_waiting = false FROM %s l WHERE q.seq = $1 AND q.turn_waiting AND l.lane = $2 AND l.turn >= $3`,
				s.l.table("dispatch_queue"), s.l.table("lanes")), h.row.seq, i.Lane, i.LanePosition)
			s.queue(fmt.Sprintf(`UPDATE %s l SET wanted = true WHERE l.lane = $1 AND NOT l.wanted
AND NOT EXISTS (SELECT FROM %s h WHERE h.lane = l.lane AND h.lane_position = l.turn)`, s.l.table("lanes"), s.l.table("effect_intents")), i.Lane)
		}
	}
	return nil
}
