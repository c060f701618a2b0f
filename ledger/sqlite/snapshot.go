package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	selectTokens = `SELECT version, token, hint, life_us, excludes_earlier, lane_number, made_at, dead_at IS NOT NULL
		FROM effect_tokens WHERE run_id = ? AND effect_key = ? ORDER BY version`
	selectLate = `SELECT id, ledger_epoch, fence_epoch, fence_owner, attempt, outcome, evidence, reason, at
		FROM late_evidence WHERE run_id = ? AND effect_key = ? AND (NOT ? OR used_at IS NULL) ORDER BY at, id`
)

const selectIntent = "SELECT " + columns + " FROM effect_intents i WHERE i.run_id = ? AND i.effect_key = ?"

// selectSnapshot reads an intent with what decides about its next move, in one statement.
const selectSnapshot = `SELECT coalesce((SELECT r.status FROM agent_runs r WHERE r.id = i.run_id), ''),
	(SELECT e.last_seen FROM engine_instances e WHERE e.id = i.fence_owner),
	coalesce((SELECT c.paused = 0 AND c.flag IN ('on', 'shadow') FROM channels c WHERE c.name = i.channel), 0),
	EXISTS (SELECT 1 FROM effect_tokens t WHERE t.run_id = i.run_id AND t.effect_key = i.effect_key),
	EXISTS (SELECT 1 FROM late_evidence l WHERE l.run_id = i.run_id AND l.effect_key = i.effect_key AND l.used_at IS NULL), ` +
	columns + " FROM effect_intents i WHERE i.run_id = ? AND i.effect_key = ?"

// snapshot reads everything that a move is decided by. The transaction holds the write lock already, so the clock, which is read last,
// is later than whatever it read.
func (s *session) snapshot(ctx context.Context, k ledger.Key) (ledger.Snapshot, error) {
	snap := ledger.Snapshot{Key: k, LedgerID: s.l.id}
	life, err := s.currentLife(ctx)
	if err != nil {
		return snap, err
	}
	if snap.Epoch = life.Epoch; life.Epoch > 1 {
		snap.Opened, snap.Horizon, snap.FenceTerm = life.OpenedAt, life.Horizon, life.FenceTerm
	}
	var (
		row               intentRow
		run               fence.Status
		sends, tokens, ev bool
	)
	into := append([]any{&run, scanTime{&snap.OwnerSeen}, &sends, &tokens, &ev}, row.into()...)
	snap.Found, err = s.find(ctx, selectSnapshot, []any{k.RunID, k.EffectKey}, into...)
	if err != nil {
		return snap, fmt.Errorf("read intent %s: %w", k, err)
	}
	if snap.Found {
		if snap.Intent, err = row.read(); err != nil {
			return snap, err
		}
		snap.RunCancelled = run == fence.StatusCancelled
		snap.Paused = !sends && snap.Intent.Channel != ledger.ChannelLocal
	}
	if tokens {
		if snap.Tokens, err = s.tokens(ctx, k); err != nil {
			return snap, err
		}
	}
	if ev {
		if snap.Late, err = s.late(ctx, k, true); err != nil {
			return snap, err
		}
	}
	snap.Now, err = s.now(ctx)
	return snap, err
}

// currentEpoch is the same for a whole transaction.
func (s *session) currentEpoch(ctx context.Context) (int64, error) {
	life, err := s.currentLife(ctx)
	return life.Epoch, err
}

// intent reads one row.
func (s *session) intent(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
	var row intentRow
	found, err := s.find(ctx, selectIntent, []any{k.RunID, k.EffectKey}, row.into()...)
	if err != nil {
		return ledger.Intent{}, fmt.Errorf("read intent %s: %w", k, err)
	}
	if !found {
		return ledger.Intent{}, fmt.Errorf("%s: %w", k, ledger.ErrNoIntent)
	}
	return row.read()
}

// tokens reads all versions, oldest first.
func (s *session) tokens(ctx context.Context, k ledger.Key) ([]channel.Token, error) {
	var all []channel.Token
	err := s.each(ctx, selectTokens, []any{k.RunID, k.EffectKey},
		func(scan func(...any) error) error {
			var t channel.Token
			var life int64
			var hint *string
			if err := scan(&t.Version, &t.Data, &hint, &life, &t.ExcludesEarlier, &t.LaneNumber, scanTime{&t.MadeAt}, &t.Dead); err != nil {
				return err
			}
			t.Hint, t.Life = rawJSON(hint), time.Duration(life)*time.Microsecond
			all = append(all, t)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read tokens of %s: %w", k, err)
	}
	return all, nil
}

// late reads late evidence, oldest first.
func (s *session) late(ctx context.Context, k ledger.Key, unusedOnly bool) ([]ledger.LateEvidence, error) {
	var all []ledger.LateEvidence
	err := s.each(ctx, selectLate,
		[]any{k.RunID, k.EffectKey, unusedOnly}, func(scan func(...any) error) error {
			l := ledger.LateEvidence{Key: k}
			var evidence *string
			if err := scan(&l.ID, &l.Fence.Epoch, &l.Fence.Number, &l.Fence.Owner, &l.Attempt, &l.Outcome, &evidence, &l.Reason,
				scanTime{&l.At}); err != nil {
				return err
			}
			l.Evidence = json.RawMessage(rawJSON(evidence))
			all = append(all, l)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read late evidence of %s: %w", k, err)
	}
	return all, nil
}
