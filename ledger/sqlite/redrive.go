package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Redrive implements [ledger.Redrives].
func (l *Ledger) Redrive(ctx context.Context, r ledger.Redrive) (out ledger.ClaimResult, err error) {
	if err := r.Check(); err != nil {
		return out, fmt.Errorf("redrive: %w", err)
	}
	r = r.Bounded()
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		out, err = s.redrive(ctx, r)
		return err
	})
	if err != nil {
		return ledger.ClaimResult{}, fmt.Errorf("redrive %s: %w", r.Key, err)
	}
	return out, nil
}

func (s *session) redrive(ctx context.Context, r ledger.Redrive) (out ledger.ClaimResult, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return out, err
	}
	old, err := s.intent(ctx, r.Key)
	if err != nil {
		return out, err
	}
	of, as, err := s.links(ctx, r.Key)
	if err != nil {
		return out, err
	}
	if as != "" {
		out.Status, out.Key = ledger.ClaimDeduplicated, ledger.Key{RunID: r.RunID, EffectKey: as}
		if out.Intent, err = s.intent(ctx, out.Key); err != nil {
			return out, err
		}
		return out, s.writeLog(ctx, now, []ledger.LogEntry{{Key: out.Key, Attempt: out.Intent.Attempts, Outcome: ledger.LogDeduped}})
	}
	var run fence.Status
	if _, err := s.find(ctx, "SELECT status FROM agent_runs WHERE id = ?", []any{r.RunID}, &run); err != nil {
		return out, fmt.Errorf("read run %s: %w", r.RunID, err)
	}
	if err := r.Allow(old, run == fence.StatusCancelled); err != nil {
		return out, err
	}
	c, err := s.againUnderFreeKey(ctx, r, old, of != "", now)
	if err != nil {
		return out, err
	}
	return s.claimAgain(ctx, r, old, c, now)
}

// againUnderFreeKey is the claim under the first new key that nobody has claimed by hand.
func (s *session) againUnderFreeKey(ctx context.Context, r ledger.Redrive, old ledger.Intent, redriven bool, now time.Time) (ledger.Claim, error) {
	for n := r.NextNumber(old, redriven); n < ledger.MaxRedriveKeys; n++ {
		c, err := r.Again(old, redriven, n, now)
		if err != nil {
			return c, err
		}
		var taken bool
		if err := s.row(ctx, "SELECT EXISTS (SELECT 1 FROM effect_intents WHERE run_id = ? AND effect_key = ?)", []any{c.RunID, c.EffectKey}, &taken); err != nil {
			return c, fmt.Errorf("look for a free key: %w", err)
		}
		if !taken {
			return c, nil
		}
	}
	return ledger.Claim{}, &ledger.InvalidError{Field: "effect_key", Reason: fmt.Sprintf("%d keys with a number behind it are taken; claim the effect under another one", ledger.MaxRedriveKeys)}
}

// claimAgain makes the new intent and links it.
func (s *session) claimAgain(ctx context.Context, r ledger.Redrive, old ledger.Intent, c ledger.Claim, now time.Time) (out ledger.ClaimResult, err error) {
	p, err := ledger.Prepare(c)
	if err != nil {
		return out, err
	}
	results := make([]ledger.ClaimResult, 1)
	if err := s.claimAll(ctx, []ledger.Prepared{p}, results); err != nil {
		return out, err
	}
	out = results[0]
	if out.Intent.Shadow() {
		return out, &ledger.RefusedError{Move: "redrive", Rule: "shadow", Reason: "the channel is in shadow: nothing would be sent"}
	}
	if _, err := s.exec(ctx, "INSERT INTO redrives (run_id, effect_key, new_effect_key, by, reason, accepted_duplicates, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		r.RunID, r.EffectKey, out.Key.EffectKey, r.By, r.Reason, r.AcceptDuplicates, timeText(now)); err != nil {
		return out, fmt.Errorf("link %s: %w", out.Key, err)
	}
	entries, err := r.Entries(old, out.Intent)
	if err != nil {
		return out, err
	}
	return out, s.writeLog(ctx, now, entries)
}

// links reads what an intent was redriven from and as.
func (s *session) links(ctx context.Context, k ledger.Key) (of, as string, err error) {
	err = s.row(ctx, `SELECT coalesce((SELECT effect_key FROM redrives WHERE run_id = ?1 AND new_effect_key = ?2), ''),
		coalesce((SELECT new_effect_key FROM redrives WHERE run_id = ?1 AND effect_key = ?2), '')`, []any{k.RunID, k.EffectKey}, &of, &as)
	if err != nil {
		return "", "", fmt.Errorf("read redrives of %s: %w", k, err)
	}
	return of, as, nil
}

// Links implements [ledger.Redrives].
func (l *Ledger) Links(ctx context.Context, k ledger.Key) (of, as string, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		of, as, err = s.links(ctx, k)
		return err
	})
	return of, as, err
}
