package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// syncCommit makes a transaction that changes nothing wait for all before it to be durable: a move that was done already may have been
// done by a COMMIT whose answer is lost.
const syncCommit = "SELECT pg_current_xact_id()"

// Move makes one move in two round trips: lock and read, then write and commit. Moves of other intents that are asked for meanwhile share
// the next transaction. After an error whose answer to COMMIT is lost, making the same move again under the same fence is harmless.
// [ledger.Ledger].
func (l *Ledger) Move(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	if err := checkKey(k); err != nil {
		if _, late := m.(ledger.Late); !late {
			return ledger.Result{}, err
		}
		return ledger.Result{}, &ledger.InvalidError{Field: "run_id", Reason: "is not a UUID"}
	}
	if err := l.enter(); err != nil {
		return ledger.Result{}, err
	}
	defer l.leave()
	return l.mover.do(ctx, k, m)
}

// moveAlone makes one move in a transaction of its own. It waits for whoever holds the row.
func (l *Ledger) moveAlone(ctx context.Context, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	var result ledger.Result
	var clash string // the evidence id that another intent had when it was tried
	err := l.transactEntered(ctx, func(ctx context.Context, s *session) error {
		row, err := s.load(ctx, k)
		if err != nil {
			return err
		}
		if clash != "" {
			if row.snap.EvidenceTaken, err = s.evidenceTaken(ctx, row.snap.Intent.Channel, clash); err != nil {
				return err
			}
		}
		change, err := ledger.Apply(row.snap, m)
		result = change.Result
		if err != nil {
			return err
		}
		w := &writer{l: l}
		if err := w.add(row, change); err != nil {
			return err
		}
		if len(change.Steps) == 0 && change.NewLate == nil {
			s.queue(syncCommit)
		}
		err = s.write(ctx, w)
		if errors.Is(err, errEvidenceClash) {
			clash = change.EvidenceID // it is looked for under the lock, and only if it is wanted
		}
		return err
	})
	return result, err
}

// write queues what was gathered and commits; a writer that gathered nothing leaves nothing to commit.
func (s *session) write(ctx context.Context, w *writer) error {
	w.queue(s)
	if s.batch.Len() == 0 {
		return nil
	}
	return s.commit(ctx)
}

// evidenceTaken reports whether an intent of the channel has the evidence id. Rows of evidence_ids are never deleted, so what was seen
// once stays true.
func (s *session) evidenceTaken(ctx context.Context, channelName, id string) (taken bool, err error) {
	s.queue(s.l.sql.evidenceOwner, channelName, id).QueryRow(func(row pgx.Row) error { return row.Scan(&taken) })
	return taken, s.flush(ctx)
}

// decide asks Apply, and asks again where the evidence that it wants is taken, in the ledger or by another row of the same batch.
func (s *session) decide(ctx context.Context, w *writer, row locked, m ledger.Move) (ledger.Change, error) {
	change, err := ledger.Apply(row.snap, m)
	if err != nil || change.EvidenceID == "" {
		return change, err
	}
	taken := w.wants(row.snap.Intent.Channel, change.EvidenceID)
	if !taken {
		if taken, err = s.evidenceTaken(ctx, row.snap.Intent.Channel, change.EvidenceID); err != nil {
			return change, err
		}
	}
	if taken {
		row.snap.EvidenceTaken = true
		return ledger.Apply(row.snap, m)
	}
	return change, nil
}

// DueLooks returns dispatched intents whose next look is due. [ledger.Ledger].
func (l *Ledger) DueLooks(ctx context.Context, channels []string, limit int) ([]ledger.Key, error) {
	if limit <= 0 {
		return nil, nil
	}
	sql := fmt.Sprintf(`SELECT q.run_id::text, q.effect_key FROM unnest($1::text[]) AS c(name), LATERAL (
SELECT run_id, effect_key, due_at FROM %s WHERE channel = c.name AND phase = 'look' AND due_at <= (SELECT clock_timestamp())
ORDER BY due_at LIMIT $2) q ORDER BY q.due_at LIMIT $2`, l.table("dispatch_queue"))
	var keys []ledger.Key
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		keys = nil
		s.queue(sql, channels, limit).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var k ledger.Key
				if err := rows.Scan(&k.RunID, &k.EffectKey); err != nil {
					return err
				}
				keys = append(keys, k)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return keys, err
}

// SilentLooks returns dispatched intents whose owner is not seen any more. Where none is silent, which is nearly always, it reads the
// instances only. [ledger.Ledger].
func (l *Ledger) SilentLooks(ctx context.Context, channel string, silence, ttl time.Duration, limit int) ([]ledger.Key, error) {
	if limit <= 0 {
		return nil, nil
	}
	sql := fmt.Sprintf(`WITH silent AS MATERIALIZED (SELECT id FROM %s WHERE last_seen < clock_timestamp() - $2::bigint * interval '1 microsecond'
AND last_seen > clock_timestamp() - $3::bigint * interval '1 microsecond')
SELECT i.run_id::text, i.effect_key FROM %s q JOIN %s i ON i.run_id = q.run_id AND i.effect_key = q.effect_key
WHERE EXISTS (SELECT FROM silent) AND q.channel = $1 AND q.phase = 'look' AND q.due_at > (SELECT clock_timestamp())
AND q.due_at <= (SELECT clock_timestamp() + $4::bigint * interval '1 microsecond')
AND i.state = 'dispatched' AND i.fence_owner IN (SELECT id FROM silent) LIMIT $5`,
		l.table("engine_instances"), l.table("dispatch_queue"), l.table("effect_intents"))
	var keys []ledger.Key
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		keys = nil
		s.queue(sql, channel, silence.Microseconds(), (silence + 2*ttl).Microseconds(), ttl.Microseconds(), limit).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var k ledger.Key
					if err := rows.Scan(&k.RunID, &k.EffectKey); err != nil {
						return err
					}
					keys = append(keys, k)
				}
				return rows.Err()
			})
		return s.flush(ctx)
	})
	return keys, err
}

// checkKey refuses a run id that no row can have.
func checkKey(k ledger.Key) error {
	if id, err := uuid.Parse(k.RunID); err != nil || id.String() != k.RunID {
		return fmt.Errorf("run id %.64q is no UUID in lower case: %w", k.RunID, ledger.ErrNoIntent)
	}
	return nil
}

// Now reads the database's clock.
func (l *Ledger) Now(ctx context.Context) (now time.Time, err error) {
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
		return s.flush(ctx)
	})
	return now.UTC(), err
}

// Epoch returns the ledger's present epoch.
func (l *Ledger) Epoch(ctx context.Context) (epoch int64, err error) {
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue("SELECT max(epoch) FROM " + l.table("ledger_epochs")).QueryRow(func(row pgx.Row) error { return row.Scan(&epoch) })
		return s.flush(ctx)
	})
	return epoch, err
}
