package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// errKeyTaken says that somebody claimed the new key by hand in the middle of a redrive: it begins again and passes over it.
var errKeyTaken = errors.New("somebody claimed the new key meanwhile")

// Redrive claims an abandoned intent again. The old intent is locked throughout, so that of two redrives one is deduplicated, and so that no
// evidence arrives for it meanwhile. [ledger.Ledger].
func (l *Ledger) Redrive(ctx context.Context, r ledger.Redrive) (out ledger.ClaimResult, err error) {
	if err := r.Check(); err != nil {
		return out, fmt.Errorf("redrive: %w", err)
	}
	r = r.Bounded()
	for range maxTries {
		err = l.InTx(ctx, func(tx ledger.Tx) error {
			e, err := executorOf(tx)
			if err != nil {
				return err
			}
			out, err = (&redriving{l, tx, e, r}).run(ctx)
			return err
		})
		if !errors.Is(err, errKeyTaken) {
			break
		}
	}
	if err != nil {
		return ledger.ClaimResult{}, fmt.Errorf("redrive %s: %w", r.Key, err)
	}
	return out, nil
}

// redriving is one redrive, in its transaction.
type redriving struct {
	l  *Ledger
	tx ledger.Tx
	e  executor
	r  ledger.Redrive
}

func (d *redriving) run(ctx context.Context) (out ledger.ClaimResult, err error) {
	old, cancelled, err := d.lock(ctx)
	if err != nil {
		return out, err
	}
	var now time.Time
	var of, as string
	err = each(ctx, d.e, func(r rows) error { return r.Scan(&now, &of, &as) }, `SELECT clock_timestamp(), `+d.l.linksSQL(), d.r.RunID, d.r.EffectKey)
	if err != nil {
		return out, err
	}
	if as != "" {
		return d.before(ctx, as, now.UTC())
	}
	if err := d.r.Allow(old, cancelled); err != nil {
		return out, err
	}
	redriven := of != ""
	for n := d.r.NextNumber(old, redriven); n < ledger.MaxRedriveKeys; n++ {
		c, err := d.r.Again(old, redriven, n, now)
		if err != nil {
			return out, err
		}
		if taken, err := d.taken(ctx, c.EffectKey); err != nil || taken {
			if err != nil {
				return out, err
			}
			continue
		}
		return d.claim(ctx, old, c, now.UTC())
	}
	return out, &ledger.InvalidError{Field: "effect_key", Reason: fmt.Sprintf("%d keys with a number behind it are taken; claim the effect under another one", ledger.MaxRedriveKeys)}
}

// lock reads the old intent and keeps it as it is.
func (d *redriving) lock(ctx context.Context) (ledger.Intent, bool, error) {
	return d.read(ctx, d.r.EffectKey, " FOR UPDATE OF i")
}

// read reads an intent of the run, and whether the run was cancelled.
func (d *redriving) read(ctx context.Context, key, lock string) (ledger.Intent, bool, error) {
	var row *intentRow
	var cancelled bool
	err := each(ctx, d.e, func(r rows) error {
		row = &intentRow{}
		if err := r.Scan(append(row.targets(), &cancelled)...); err != nil {
			return err
		}
		return row.finish()
	}, fmt.Sprintf(`SELECT %s, coalesce((SELECT r.status = 'cancelled' FROM %s r WHERE r.id = i.run_id), false)
FROM %s i WHERE i.run_id = $1::text::uuid AND i.effect_key = $2%s`, intentColumns, d.l.table("agent_runs"), d.l.table("effect_intents"), lock),
		d.r.RunID, key)
	if err != nil {
		return ledger.Intent{}, false, err
	}
	if row == nil {
		return ledger.Intent{}, false, ledger.ErrNoIntent
	}
	return row.intent, cancelled, nil
}

// before is the answer where the intent was redriven already.
func (d *redriving) before(ctx context.Context, key string, now time.Time) (out ledger.ClaimResult, err error) {
	out.Status, out.Key = ledger.ClaimDeduplicated, ledger.Key{RunID: d.r.RunID, EffectKey: key}
	if out.Intent, _, err = d.read(ctx, key, ""); err != nil {
		return out, err
	}
	return out, d.log(ctx, now, ledger.LogEntry{Key: out.Key, Attempt: out.Intent.Attempts, Outcome: ledger.LogDeduped})
}

func (d *redriving) taken(ctx context.Context, key string) (taken bool, err error) {
	err = each(ctx, d.e, func(r rows) error { return r.Scan(&taken) },
		fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE run_id = $1::text::uuid AND effect_key = $2)`, d.l.table("effect_intents")), d.r.RunID, key)
	return taken, err
}

// claim makes the new intent and links it.
func (d *redriving) claim(ctx context.Context, old ledger.Intent, c ledger.Claim, now time.Time) (out ledger.ClaimResult, err error) {
	results, err := d.l.Claim(ctx, d.tx, c)
	var conflict *ledger.KeyConflictError
	if errors.As(err, &conflict) || err == nil && results[0].Status != ledger.ClaimNew {
		return out, errKeyTaken
	}
	if err != nil {
		return out, err
	}
	out = results[0]
	if out.Intent.Shadow() {
		return out, &ledger.RefusedError{Move: "redrive", Rule: "shadow", Reason: "the channel is in shadow: nothing would be sent"}
	}
	if _, err := d.e.exec(ctx, fmt.Sprintf(`INSERT INTO %s (run_id, effect_key, new_effect_key, by, reason, accepted_duplicates)
VALUES ($1::text::uuid, $2, $3, $4, $5, $6)`, d.l.table("redrives")), d.r.RunID, d.r.EffectKey, out.Key.EffectKey, d.r.By, d.r.Reason, d.r.AcceptDuplicates); err != nil {
		return out, err
	}
	entries, err := d.r.Entries(old, out.Intent)
	if err != nil {
		return out, err
	}
	return out, d.log(ctx, now, entries...)
}

func (d *redriving) log(ctx context.Context, now time.Time, entries ...ledger.LogEntry) error {
	w, out := &writer{l: d.l}, &executorSink{}
	for _, entry := range entries {
		if err := w.logged(entry, now); err != nil {
			return err
		}
	}
	w.queueLog(out)
	return out.exec(ctx, d.e)
}

// linksSQL selects what an intent ($1, $2) was redriven from and as.
func (l *Ledger) linksSQL() string {
	return fmt.Sprintf(`coalesce((SELECT effect_key FROM %[1]s WHERE run_id = $1::text::uuid AND new_effect_key = $2), ''),
coalesce((SELECT new_effect_key FROM %[1]s WHERE run_id = $1::text::uuid AND effect_key = $2), '')`, l.table("redrives"))
}

// Links returns what the intent was redriven from and as. [ledger.Ledger].
func (l *Ledger) Links(ctx context.Context, k ledger.Key) (of, as string, err error) {
	if checkKey(k) != nil {
		return "", "", nil
	}
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue("SELECT "+l.linksSQL(), k.RunID, k.EffectKey).QueryRow(func(r pgx.Row) error { return r.Scan(&of, &as) })
		return s.flush(ctx)
	})
	return of, as, err
}
