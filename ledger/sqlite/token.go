package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// writeToken stores a token version, and raises the lane's number where it was drawn from there.
func (s *session) writeToken(ctx context.Context, i ledger.Intent, t channel.Token, raiseLane bool) error {
	digest := t.Digest()
	var clash bool
	if err := s.row(ctx, "SELECT EXISTS (SELECT 1 FROM effect_tokens WHERE channel = ? AND digest = ?)", []any{i.Channel, digest}, &clash); err != nil {
		return fmt.Errorf("look for token: %w", err)
	}
	if clash {
		return fmt.Errorf("store token of %s: %w", i.Key, ledger.ErrTokenClash)
	}
	data := t.Data
	if data == nil {
		data = []byte{}
	}
	if _, err := s.exec(ctx, `INSERT INTO effect_tokens (run_id, effect_key, version, channel, digest, token, hint, life_us, excludes_earlier,
		lane_number, made_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, i.RunID, i.EffectKey, t.Version, i.Channel, digest, data,
		rawText(t.Hint), int64(t.Life/time.Microsecond), t.ExcludesEarlier, t.LaneNumber, timeText(t.MadeAt)); err != nil {
		return fmt.Errorf("store token of %s: %w", i.Key, err)
	}
	if !raiseLane || i.Lane == "" {
		return nil
	}
	if _, err := s.exec(ctx, "UPDATE lanes SET number = ? WHERE lane = ? AND number < ?", t.LaneNumber, i.Lane, t.LaneNumber); err != nil {
		return fmt.Errorf("raise number of lane %q: %w", i.Lane, err)
	}
	return nil
}
