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

// prunePage is how many rows one call looks at, in key order: no index tells which have ended, for the hot path pays for none.
const prunePage = 5000

// Prune removes payload, tokens and log of a page of intents. [ledger.Ledger].
func (l *Ledger) Prune(ctx context.Context, olderThan time.Duration, limit int, dryRun bool) (ledger.Pruned, error) {
	limit, err := ledger.CheckPrune(olderThan, limit)
	if err != nil {
		return ledger.Pruned{}, fmt.Errorf("prune: %w", err)
	}
	p := &pruning{l: l, age: olderThan.Microseconds(), limit: limit, dryRun: dryRun}
	if p.next = l.pruning.Place(olderThan, dryRun); p.next.RunID == "" {
		p.next.RunID = uuid.Nil.String()
	}
	begin := p.next
	err = l.transact(ctx, func(ctx context.Context, s *session) error {
		p.s, p.out, p.next = s, ledger.Pruned{}, begin
		return p.run(ctx)
	})
	if err != nil {
		l.pruning.Broke(olderThan, dryRun)
		return ledger.Pruned{}, fmt.Errorf("prune: %w", err)
	}
	l.pruning.Went(olderThan, dryRun, p.next, p.out.Done)
	return p.out, nil
}

// pruning is one page.
type pruning struct {
	l      *Ledger
	s      *session
	age    int64 // microseconds
	limit  int
	dryRun bool
	next   ledger.Key
	out    ledger.Pruned
}

func (p *pruning) run(ctx context.Context) error {
	keys, err := p.page(ctx)
	if err != nil {
		return err
	}
	if len(keys) > 0 && !p.dryRun {
		if keys, err = p.lock(ctx, keys); err != nil {
			return err
		}
	}
	if len(keys) > 0 {
		p.remove(keys)
	}
	if p.out.Done {
		if err := p.instances(ctx); err != nil {
			return err
		}
	}
	if p.dryRun {
		return p.s.flush(ctx)
	}
	return p.s.commit(ctx)
}

// page finds what can be pruned among the next rows.
func (p *pruning) page(ctx context.Context) ([]ledger.Key, error) {
	var keys []ledger.Key
	seen, full := 0, false
	p.s.queue(fmt.Sprintf(`SELECT p.run_id::text, p.effect_key, CASE WHEN p.state IN ('committed', 'abandoned') AND p.pruned_at IS NULL
AND p.committed_at <= clock_timestamp() - $4::bigint * interval '1 microsecond'
THEN NOT EXISTS (SELECT FROM %s r WHERE r.run_id = p.run_id AND r.effect_key = p.effect_key AND r.owed) ELSE false END
FROM (SELECT run_id, effect_key, state, pruned_at, committed_at FROM %s WHERE (run_id, effect_key) > ($1::uuid, $2)
ORDER BY run_id, effect_key LIMIT $3) p ORDER BY p.run_id, p.effect_key`, p.l.table("receipts"), p.l.table("effect_intents")),
		p.next.RunID, p.next.EffectKey, prunePage, p.age).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var k ledger.Key
			var due bool
			if err := rows.Scan(&k.RunID, &k.EffectKey, &due); err != nil {
				return err
			}
			if due && len(keys) == p.limit {
				full = true
			}
			if full {
				continue
			}
			seen++
			if p.next = k; due {
				keys = append(keys, k)
			}
		}
		return rows.Err()
	})
	err := p.s.flush(ctx)
	p.out.Done = !full && seen < prunePage
	return keys, err
}

// lock locks the rows that nobody else holds: evidence that arrives meanwhile comes before or after.
func (p *pruning) lock(ctx context.Context, keys []ledger.Key) (locked []ledger.Key, err error) {
	runs, names := split(keys)
	p.s.queue(fmt.Sprintf(`SELECT i.run_id::text, i.effect_key FROM unnest($1::uuid[], $2::text[]) AS u(run, key)
JOIN %s i ON i.run_id = u.run AND i.effect_key = u.key ORDER BY i.run_id, i.effect_key FOR UPDATE OF i SKIP LOCKED`, p.l.table("effect_intents")), runs, names).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var k ledger.Key
				if err := rows.Scan(&k.RunID, &k.EffectKey); err != nil {
					return err
				}
				locked = append(locked, k)
			}
			return rows.Err()
		})
	return locked, p.s.flush(ctx)
}

// remove queues what removes, or counts, the keys.
func (p *pruning) remove(keys []ledger.Key) {
	runs, names := split(keys)
	intents, tokens, log := p.l.table("effect_intents"), p.l.table("effect_tokens"), p.l.table("outbox_dispatch_log")
	if p.dryRun {
		p.out.Intents = len(keys)
		for table, into := range map[string]*int{tokens: &p.out.Tokens, log: &p.out.LogRows} {
			p.s.queue(fmt.Sprintf(`SELECT count(*) FROM unnest($1::uuid[], $2::text[]) AS u(run, key) JOIN %s t ON t.run_id = u.run AND t.effect_key = u.key`, table), runs, names).
				QueryRow(func(r pgx.Row) error { return r.Scan(into) })
		}
		return
	}
	count := func(into *int) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error {
			*into = int(tag.RowsAffected())
			return nil
		}
	}
	p.s.queue(fmt.Sprintf(`UPDATE %s i SET payload = '', pruned_at = clock_timestamp() FROM unnest($1::uuid[], $2::text[]) AS u(run, key)
WHERE i.run_id = u.run AND i.effect_key = u.key AND i.state IN ('committed', 'abandoned') AND i.pruned_at IS NULL
AND i.committed_at <= clock_timestamp() - $3::bigint * interval '1 microsecond'
AND NOT EXISTS (SELECT FROM %s r WHERE r.run_id = i.run_id AND r.effect_key = i.effect_key AND r.owed)`, intents, p.l.table("receipts")),
		runs, names, p.age).Exec(count(&p.out.Intents))
	for _, c := range []struct {
		table string
		into  *int
	}{{tokens, &p.out.Tokens}, {log, &p.out.LogRows}} {
		p.s.queue(fmt.Sprintf(`DELETE FROM %s t USING unnest($1::uuid[], $2::text[]) AS u(run, key), %s i
WHERE t.run_id = u.run AND t.effect_key = u.key AND i.run_id = u.run AND i.effect_key = u.key AND i.pruned_at IS NOT NULL`, c.table, intents), runs, names).
			Exec(count(c.into))
	}
}

// instances removes engine instances that are gone and own nothing.
func (p *pruning) instances(ctx context.Context) error {
	var gone []string
	p.s.queue(fmt.Sprintf(`SELECT id FROM %s WHERE last_seen <= clock_timestamp() - $1::bigint * interval '1 microsecond'`, p.l.table("engine_instances")), p.age).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); err != nil {
					return err
				}
				gone = append(gone, id)
			}
			return rows.Err()
		})
	if err := p.s.flush(ctx); err != nil || len(gone) == 0 {
		return err
	}
	verb := `WITH gone AS (DELETE FROM %[1]s n %[2]s RETURNING 1) SELECT count(*) FROM gone`
	if p.dryRun {
		verb = `SELECT count(*) FROM %[1]s n %[2]s`
	}
	p.s.queue(fmt.Sprintf(verb, p.l.table("engine_instances"), fmt.Sprintf(`WHERE n.id = ANY($1::text[])
AND n.last_seen <= clock_timestamp() - $2::bigint * interval '1 microsecond'
AND n.id NOT IN (SELECT i.fence_owner FROM %s q JOIN %s i ON i.run_id = q.run_id AND i.effect_key = q.effect_key
 WHERE q.phase = 'look' AND i.state = 'dispatched' AND i.fence_owner = ANY($1::text[]))
AND n.id NOT IN (SELECT r.lease_owner FROM %s r WHERE r.status IN ('leased', 'running') AND r.lease_owner = ANY($1::text[]))`,
		p.l.table("dispatch_queue"), p.l.table("effect_intents"), p.l.table("agent_runs"))), gone, p.age).
		QueryRow(func(r pgx.Row) error { return r.Scan(&p.out.Instances) })
	return nil
}
