package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// Intent returns one intent with its tokens. [ledger.ErrNoIntent].
func (l *Ledger) Intent(ctx context.Context, k ledger.Key) (ledger.Intent, []channel.Token, error) {
	if err := checkKey(k); err != nil {
		return ledger.Intent{}, nil, err
	}
	var found *intentRow
	var beside []around
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		found, beside = nil, nil
		s.queue(fmt.Sprintf(`SELECT %s FROM %s i WHERE i.run_id = $1::uuid AND i.effect_key = $2`, intentColumns, l.table("effect_intents")), k.RunID, k.EffectKey).
			Query(func(rows pgx.Rows) error {
				all, err := scanIntents(rows)
				if len(all) > 0 {
					found = all[0]
				}
				return err
			})
		s.queueAround([]ledger.Key{k}, &beside)
		return s.flush(ctx)
	})
	if err != nil {
		return ledger.Intent{}, nil, err
	}
	if found == nil || len(beside) == 0 {
		return ledger.Intent{}, nil, fmt.Errorf("%s: %w", k, ledger.ErrNoIntent)
	}
	return found.intent, beside[0].tokens, nil
}

func scanIntents(rows pgx.Rows) ([]*intentRow, error) {
	var all []*intentRow
	for rows.Next() {
		row := &intentRow{}
		if err := rows.Scan(row.targets()...); err != nil {
			return nil, err
		}
		if err := row.finish(); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// Intents lists, newest claim first. Intents that live are found through the queue and those of a run through the key; a list of ended
// ones over all runs reads the table, which has no index for it: the hot path pays for none. [ledger.Ledger].
func (l *Ledger) Intents(ctx context.Context, f ledger.Filter) ([]ledger.Intent, ledger.Cursor, error) {
	f.Limit = pageLimit(f.Limit)
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	from, where := l.table("effect_intents")+" i", []string{"true"}
	if f.RunID != "" {
		if !isUUID(f.RunID) {
			return nil, "", nil
		}
		where = append(where, "i.run_id = "+arg(f.RunID)+"::uuid")
	}
	if f.Channel != "" {
		where = append(where, "i.channel = "+arg(f.Channel))
	}
	if f.State != "" {
		where = append(where, "i.state = "+arg(string(f.State)))
	}
	if f.Held {
		where = append(where, "i.held_at IS NOT NULL")
	}
	if f.After != "" {
		at, k, err := openCursor(f.After)
		if err != nil {
			return nil, "", err
		}
		where = append(where, fmt.Sprintf("(i.created_at, i.run_id, i.effect_key) < (%s, %s::uuid, %s)", arg(at), arg(k.RunID), arg(k.EffectKey)))
	}
	sql := fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY i.created_at DESC, i.run_id DESC, i.effect_key DESC LIMIT %s`,
		intentColumns, from, strings.Join(where, " AND "), arg(f.Limit))
	var page []*intentRow
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
			page, err = scanIntents(rows)
			return err
		})
		return s.flush(ctx)
	})
	if err != nil {
		return nil, "", err
	}
	intents := make([]ledger.Intent, len(page))
	for n, row := range page {
		intents[n] = row.intent
	}
	if len(page) < f.Limit {
		return intents, "", nil
	}
	return intents, closeCursor(intents[len(intents)-1]), nil
}

func closeCursor(i ledger.Intent) ledger.Cursor { return cursorAt(i.CreatedAt, i.RunID, i.EffectKey) }

func cursorAt(at time.Time, id, key string) ledger.Cursor {
	raw := jsonText([]string{at.Format(time.RFC3339Nano), id, key})
	return ledger.Cursor(base64.RawURLEncoding.EncodeToString([]byte(raw)))
}

func openCursor(c ledger.Cursor) (time.Time, ledger.Key, error) {
	wrong := &ledger.InvalidError{Field: "cursor", Reason: "is none that this ledger gave out; begin with an empty one"}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil {
		return time.Time{}, ledger.Key{}, wrong
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 3 || !isUUID(parts[1]) {
		return time.Time{}, ledger.Key{}, wrong
	}
	at, err := time.Parse(time.RFC3339Nano, parts[0])
	if err != nil {
		return time.Time{}, ledger.Key{}, wrong
	}
	return at, ledger.Key{RunID: parts[1], EffectKey: parts[2]}, nil
}

// Log returns the dispatch log of an intent, oldest first. [ledger.Ledger].
func (l *Ledger) Log(ctx context.Context, k ledger.Key) ([]ledger.LogEntry, error) {
	if checkKey(k) != nil {
		return nil, nil
	}
	var all []ledger.LogEntry
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(fmt.Sprintf(`SELECT id::text, attempt, outcome, at, detail::text FROM %s WHERE run_id = $1::uuid AND effect_key = $2 ORDER BY at, id`,
			l.table("outbox_dispatch_log")), k.RunID, k.EffectKey).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				e := ledger.LogEntry{Key: k}
				var detail *string
				if err := rows.Scan(&e.ID, &e.Attempt, (*string)(&e.Outcome), &e.At, &detail); err != nil {
					return err
				}
				e.At, e.Detail = e.At.UTC(), stored(detail)
				all = append(all, e)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// LateEvidence returns late evidence for the key, oldest first, whether there is a row or not. [ledger.Ledger].
func (l *Ledger) LateEvidence(ctx context.Context, k ledger.Key) ([]ledger.LateEvidence, error) {
	if checkKey(k) != nil {
		return nil, nil
	}
	var all []ledger.LateEvidence
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(fmt.Sprintf(`SELECT id::text, ledger_epoch, fence_epoch, fence_owner, attempt, outcome, evidence::text, reason, at
FROM %s WHERE run_id = $1::uuid AND effect_key = $2 ORDER BY at, id`, l.table("late_evidence")), k.RunID, k.EffectKey).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				v := ledger.LateEvidence{Key: k}
				var evidence string
				if err := rows.Scan(&v.ID, &v.Fence.Epoch, &v.Fence.Number, &v.Fence.Owner, &v.Attempt, (*string)(&v.Outcome), &evidence,
					&v.Reason, &v.At); err != nil {
					return err
				}
				v.Evidence, v.At = stored(&evidence), v.At.UTC()
				all = append(all, v)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// Stats counts: live intents through the queue, ended ones by their counters. [ledger.Ledger].
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	var st ledger.Stats
	sql := fmt.Sprintf(`SELECT i.channel, count(*) FILTER (WHERE i.state = 'intent'),
count(*) FILTER (WHERE i.state = 'dispatched' AND i.held_at IS NULL AND i.accepted_at IS NULL),
count(*) FILTER (WHERE i.state = 'dispatched' AND i.held_at IS NULL AND i.accepted_at IS NOT NULL),
count(*) FILTER (WHERE i.state = 'dispatched' AND i.held_at IS NOT NULL),
coalesce(extract(epoch FROM clock_timestamp() - min(i.due_at) FILTER (WHERE i.state = 'intent')), 0)::float8,
coalesce(extract(epoch FROM clock_timestamp() - min(i.held_at) FILTER (WHERE i.state = 'dispatched')), 0)::float8,
coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(i.send_started_at, i.fence_expires_at))
 FILTER (WHERE i.state = 'dispatched' AND i.held_at IS NULL AND i.accepted_at IS NULL)), 0)::float8
FROM %s q JOIN %s i ON i.run_id = q.run_id AND i.effect_key = q.effect_key
WHERE i.state IN ('intent', 'dispatched') GROUP BY i.channel`, l.table("dispatch_queue"), l.table("effect_intents"))
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		st = ledger.Stats{}
		s.queue(sql).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var name string
				var c ledger.ChannelStats
				var waiting, unknown, unresolved float64
				if err := rows.Scan(&name, &c.Waiting, &c.Dispatched, &c.Accepted, &c.Held, &waiting, &unknown, &unresolved); err != nil {
					return err
				}
				c.OldestWaiting, c.OldestUnknown, c.OldestUnresolved = seconds(waiting), seconds(unknown), seconds(unresolved)
				st.Add(name, c)
			}
			return rows.Err()
		})
		s.queue(`SELECT coalesce(sum(committed), 0)::bigint, coalesce(sum(abandoned), 0)::bigint FROM ` + l.table("ended_counts")).
			QueryRow(func(r pgx.Row) error { return r.Scan(&st.Committed, &st.Abandoned) })
		s.queue(`SELECT count(*) FROM ` + l.table("receipts") + ` WHERE owed`).QueryRow(func(r pgx.Row) error { return r.Scan(&st.OwedReceipts) })
		return s.flush(ctx)
	})
	return st, err
}

func seconds(s float64) time.Duration { return max(time.Duration(s*float64(time.Second)), 0) }
