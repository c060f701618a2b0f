package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
)

// newID makes a time-ordered id, so that rows of one time are near each other on the disk.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

func (s *session) writeLog(ctx context.Context, now time.Time, entries []ledger.LogEntry) error {
	for _, e := range entries {
		id, err := newID()
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, `INSERT INTO outbox_dispatch_log (id, run_id, effect_key, attempt, outcome, at, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?)`, id, e.Key.RunID, e.Key.EffectKey, e.Attempt, string(e.Outcome), timeText(now), rawText(e.Detail)); err != nil {
			return fmt.Errorf("log %s of %s: %w", e.Outcome, e.Key, err)
		}
	}
	return nil
}
