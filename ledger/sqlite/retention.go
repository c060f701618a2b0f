package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// prunePage is how many rows one call looks at, in order of claim: no index tells which have ended.
const prunePage = 5000

// endedLongAgo is the condition of what may be pruned. The columns behind the payload come last: they are read through it.
const endedLongAgo = `state IN ('committed', 'abandoned') AND committed_at <= ? AND pruned_at IS NULL
	AND NOT EXISTS (SELECT 1 FROM receipts r WHERE r.run_id = i.run_id AND r.effect_key = i.effect_key AND r.owed = 1)`

// Prune implements [ledger.Retention]. It finds the page without the write lock, and takes that to remove it in one transaction. The file gets
// no smaller: what was freed is used again.
func (l *Ledger) Prune(ctx context.Context, olderThan time.Duration, limit int, dryRun bool) (out ledger.Pruned, err error) {
	limit, err = ledger.CheckPrune(olderThan, limit)
	if err != nil {
		return out, fmt.Errorf("prune: %w", err)
	}
	now, err := l.clock.now()
	if err != nil {
		return out, fmt.Errorf("prune: %w", err)
	}
	p := &pruning{cutoff: now.Add(-olderThan), limit: limit, dryRun: dryRun}
	begin := l.pruning.Place(olderThan, dryRun)
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		p.out, p.next, p.found = ledger.Pruned{}, begin, nil
		if err := p.page(ctx, s); err != nil || !dryRun {
			return err
		}
		return p.remove(ctx, s)
	})
	if err == nil && !dryRun && (len(p.found) > 0 || p.out.Done) {
		err = l.writer.do(ctx, func(ctx context.Context, s *session) error { return p.remove(ctx, s) })
	}
	if err != nil {
		l.pruning.Broke(olderThan, dryRun)
		return ledger.Pruned{}, fmt.Errorf("prune: %w", err)
	}
	l.pruning.Went(olderThan, dryRun, p.next, p.out.Done)
	return p.out, nil
}

// pruning is one page.
type pruning struct {
	cutoff time.Time
	limit  int
	dryRun bool
	next   int64 // the last row that was looked at
	found  []prunable
	out    ledger.Pruned
}

type prunable struct {
	seq int64
	key ledger.Key
}

// page finds what can be pruned among the next rows.
func (p *pruning) page(ctx context.Context, s *session) error {
	seen, full := 0, false
	err := s.each(ctx, "SELECT seq, run_id, effect_key, "+endedLongAgo+" FROM effect_intents i WHERE seq > ? ORDER BY seq LIMIT ?",
		[]any{timeText(p.cutoff), p.next, prunePage}, func(scan func(...any) error) error {
			var row prunable
			var due bool
			if err := scan(&row.seq, &row.key.RunID, &row.key.EffectKey, &due); err != nil {
				return err
			}
			if full = full || due && len(p.found) == p.limit; full {
				return nil
			}
			seen++
			if p.next = row.seq; due {
				p.found = append(p.found, row)
			}
			return nil
		})
	p.out.Done = !full && seen < prunePage
	return err
}

// remove removes, or counts, what was found. It looks again: evidence may have arrived meanwhile.
func (p *pruning) remove(ctx context.Context, s *session) error {
	p.out = ledger.Pruned{Done: p.out.Done} // a job may run more than once
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	if p.dryRun {
		return p.count(ctx, s)
	}
	for _, row := range p.found {
		n, err := s.exec(ctx, "UPDATE effect_intents AS i SET payload = '', pruned_at = ? WHERE seq = ? AND "+endedLongAgo,
			timeText(now), row.seq, timeText(p.cutoff))
		if err != nil {
			return fmt.Errorf("prune %s: %w", row.key, err)
		}
		if n == 0 {
			continue
		}
		p.out.Intents++
		for table, into := range p.tables() {
			n, err := s.exec(ctx, "DELETE FROM "+table+" WHERE run_id = ? AND effect_key = ?", row.key.RunID, row.key.EffectKey)
			if err != nil {
				return fmt.Errorf("prune %s of %s: %w", table, row.key, err)
			}
			*into += int(n)
		}
	}
	if !p.out.Done {
		return nil
	}
	silent, err := s.exec(ctx, "DELETE FROM engine_instances AS n WHERE "+gone, timeText(p.cutoff))
	if err != nil {
		return fmt.Errorf("prune instances: %w", err)
	}
	p.out.Instances = int(silent)
	return nil
}

func (p *pruning) tables() map[string]*int {
	return map[string]*int{"effect_tokens": &p.out.Tokens, "outbox_dispatch_log": &p.out.LogRows}
}

func (p *pruning) count(ctx context.Context, s *session) error {
	p.out.Intents = len(p.found)
	for _, row := range p.found {
		for table, into := range p.tables() {
			var n int
			if err := s.row(ctx, "SELECT count(*) FROM "+table+" WHERE run_id = ? AND effect_key = ?", []any{row.key.RunID, row.key.EffectKey}, &n); err != nil {
				return fmt.Errorf("count %s of %s: %w", table, row.key, err)
			}
			*into += n
		}
	}
	if !p.out.Done {
		return nil
	}
	return s.row(ctx, "SELECT count(*) FROM engine_instances n WHERE "+gone, []any{timeText(p.cutoff)}, &p.out.Instances)
}

// gone is the condition of engine instances that fell silent long ago and own nothing.
const gone = `last_seen <= ? AND NOT EXISTS (SELECT 1 FROM effect_intents i WHERE i.state IN ('intent', 'dispatched') AND i.fence_owner = n.id)
	AND NOT EXISTS (SELECT 1 FROM agent_runs r WHERE r.status IN ('leased', 'running') AND r.lease_owner = n.id)`
