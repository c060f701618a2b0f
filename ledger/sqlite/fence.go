package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

const (
	// maxFence bounds a batch.
	maxFence = 1000
	// unreadable is how long a row that cannot be read or written is left alone.
	unreadable = time.Minute
)

const (
	selectDue = `SELECT run_id, effect_key FROM dispatch_queue WHERE channel = ? AND phase = ? AND turn_waiting = 0 AND due_at <= ?
		ORDER BY due_at, seq LIMIT ?`
	selectNextDue  = "SELECT min(due_at) FROM dispatch_queue WHERE channel = ? AND phase = 'send' AND turn_waiting = 0"
	selectDueLooks = `SELECT run_id, effect_key FROM dispatch_queue WHERE channel IN (SELECT value FROM json_each(?)) AND phase = 'look'
		AND turn_waiting = 0 AND due_at <= ? ORDER BY due_at, seq LIMIT ?`
	selectSilentLooks = `SELECT q.run_id, q.effect_key FROM dispatch_queue q CROSS JOIN effect_intents i ON i.run_id = q.run_id AND i.effect_key = q.effect_key
		WHERE q.channel = ? AND q.phase = 'look' AND q.turn_waiting = 0 AND q.due_at > ? AND q.due_at <= ? AND i.state = 'dispatched'
		AND i.fence_owner IN (SELECT value FROM json_each(?)) LIMIT ?`
)

// Fence implements [ledger.Moves].
func (l *Ledger) Fence(ctx context.Context, r ledger.FenceRequest) (out ledger.FenceResult, err error) {
	switch {
	case r.Owner == "":
		return out, &ledger.InvalidError{Field: "owner", Reason: "is empty; name the instance"}
	case r.TTL <= 0:
		return out, &ledger.InvalidError{Field: "ttl", Reason: "must be positive"}
	case r.Only == nil && (r.Channel == ledger.ChannelLocal || r.Limit <= 0):
		return ledger.FenceResult{NextDue: -1}, nil // plain Go effects are sent by their callers
	}
	r.Limit = min(r.Limit, maxFence)
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		if r.Only != nil {
			out, err = s.fenceOnly(ctx, r)
		} else {
			out, err = s.fenceDue(ctx, r)
		}
		return err
	})
	if err != nil {
		return ledger.FenceResult{}, fmt.Errorf("fence: %w", err)
	}
	return out, nil
}

// fenceOnly fences one intent for whoever sends it himself.
func (s *session) fenceOnly(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	out := ledger.FenceResult{NextDue: -1}
	now, err := s.now(ctx)
	if err != nil {
		return out, err
	}
	out.Now = now
	if r.Lease != nil {
		if r.Lease.RunID != r.Only.RunID {
			return out, &ledger.InvalidError{Field: "lease", Reason: fmt.Sprintf("is for run %s, the intent of run %s", r.Lease.RunID, r.Only.RunID)}
		}
		if err := s.verifyLease(ctx, *r.Lease, now); err != nil {
			return out, err
		}
	}
	snap, err := s.snapshot(ctx, *r.Only)
	if err != nil {
		return out, err
	}
	err = s.fenceInto(ctx, &out, snap, r.Fence)
	if errors.Is(err, ledger.ErrFenceLost) || errors.Is(err, errNotItsTurn) {
		return out, nil // it is dispatched already, or another one of its lane is before it
	}
	return out, err
}

// fenceInto fences one row and adds it to the batch. What the channel requires now counts beside what the caller does.
func (s *session) fenceInto(ctx context.Context, out *ledger.FenceResult, snap ledger.Snapshot, m ledger.Fence) error {
	if snap.Found && !m.ApprovalRequired {
		_, err := s.find(ctx, "SELECT approval_required FROM channels WHERE name = ?", []any{snap.Intent.Channel}, &m.ApprovalRequired)
		if err != nil {
			return fmt.Errorf("read whether channel %s requires approvals: %w", snap.Intent.Channel, err)
		}
	}
	result, err := s.decide(ctx, snap, m)
	if err != nil {
		return err
	}
	out.Now = snap.Now
	if !result.Applied {
		out.Settled = append(out.Settled, result.Intent)
		return nil
	}
	d := ledger.Dispatch{Intent: result.Intent, Tokens: result.Tokens}
	if d.Intent.Lane != "" {
		_, number, err := s.lane(ctx, d.Intent.Lane)
		if err != nil {
			return err
		}
		d.LaneNumber = number + 1
	}
	out.Dispatches = append(out.Dispatches, d)
	return nil
}

// fenceDue fences what the queue says is due. The queue only hints: a row that it is wrong about mends it and is passed over.
func (s *session) fenceDue(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	out := ledger.FenceResult{NextDue: -1}
	now, err := s.now(ctx)
	if err != nil {
		return out, err
	}
	out.Now = now
	row, err := s.channelRow(ctx, r.Channel)
	if err != nil {
		return out, err
	}
	out.RatePerMinute = row.RatePerMinute
	if !row.Sends() {
		return out, nil
	}
	keys, err := s.due(ctx, r.Channel, ledger.PhaseSend, now, r.Limit)
	if err != nil {
		return out, err
	}
	for _, k := range keys {
		if err := s.fenceHint(ctx, &out, k, r.Fence); err != nil {
			return out, err
		}
	}
	var next *string
	err = s.row(ctx, selectNextDue, []any{r.Channel}, &next)
	if err != nil {
		return out, fmt.Errorf("read what is due next: %w", err)
	}
	if next != nil {
		var at time.Time
		if err := (scanTime{&at}).Scan(*next); err != nil {
			return out, err
		}
		out.NextDue = max(0, at.Sub(now))
	}
	return out, nil
}

// due reads keys from the queue, the longest due first.
func (s *session) due(ctx context.Context, channel string, phase ledger.Phase, now time.Time, limit int) (keys []ledger.Key, err error) {
	err = s.each(ctx, selectDue, []any{channel, string(phase), timeText(now), limit}, func(scan func(...any) error) error {
		var k ledger.Key
		err := scan(&k.RunID, &k.EffectKey)
		keys = append(keys, k)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queue of %s: %w", channel, err)
	}
	return keys, nil
}

// fenceHint fences the row that the queue names, or mends the queue. One bad row stops no other.
func (s *session) fenceHint(ctx context.Context, out *ledger.FenceResult, k ledger.Key, m ledger.Fence) error {
	if _, err := s.exec(ctx, "SAVEPOINT hint"); err != nil {
		return fmt.Errorf("begin with %s: %w", k, err)
	}
	if err := s.fenceHinted(ctx, out, k, m); err != nil {
		if c := code(err); c != 0 && c != codeConstraint {
			return err // the database's own trouble, not the row's
		}
		if _, err := s.exec(ctx, "ROLLBACK TO hint"); err != nil {
			return fmt.Errorf("undo %s: %w", k, err)
		}
		if err := s.setAside(ctx, k, err); err != nil {
			return err
		}
	}
	if _, err := s.exec(ctx, "RELEASE hint"); err != nil {
		return fmt.Errorf("end with %s: %w", k, err)
	}
	return nil
}

func (s *session) fenceHinted(ctx context.Context, out *ledger.FenceResult, k ledger.Key, m ledger.Fence) error {
	snap, err := s.snapshot(ctx, k)
	if err != nil {
		return err
	}
	err = s.fenceInto(ctx, out, snap, m)
	var refused *ledger.RefusedError
	switch {
	case errors.Is(err, ledger.ErrNoIntent):
		return s.dropQueue(ctx, k)
	case errors.Is(err, ledger.ErrTerminal), errors.Is(err, ledger.ErrFenceLost), errors.Is(err, errNotItsTurn),
		errors.As(err, &refused):
		phase, due := wanted(snap.Intent)
		return s.writeQueue(ctx, snap.Intent, phase, due)
	}
	return err
}

// setAside leaves a row alone that cannot be read or written, so that those behind it go on.
func (s *session) setAside(ctx context.Context, k ledger.Key, cause error) error {
	s.l.logger.ErrorContext(ctx, "an intent cannot be read or written; it is left alone for a while", "run_id", k.RunID, "effect_key", k.EffectKey, "error", cause)
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	if _, err := s.exec(ctx, "UPDATE dispatch_queue SET due_at = ? WHERE run_id = ? AND effect_key = ?", timeText(now.Add(unreadable)),
		k.RunID, k.EffectKey); err != nil {
		return fmt.Errorf("set %s aside: %w", k, err)
	}
	return nil
}

// DueLooks implements [ledger.Moves].
func (l *Ledger) DueLooks(ctx context.Context, channels []string, limit int) (keys []ledger.Key, err error) {
	if len(channels) == 0 || limit <= 0 {
		return nil, nil
	}
	names, err := jsonText(channels, false)
	if err != nil {
		return nil, err
	}
	now, err := l.clock.now()
	if err != nil {
		return nil, err
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		keys = nil
		return s.each(ctx, selectDueLooks, []any{names, timeText(now), limit}, func(scan func(...any) error) error {
			var k ledger.Key
			err := scan(&k.RunID, &k.EffectKey)
			keys = append(keys, k)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read due looks: %w", err)
	}
	return keys, nil
}

// SilentLooks implements [ledger.Moves]. Where no instance is silent, which is nearly always, it reads the instances only.
func (l *Ledger) SilentLooks(ctx context.Context, channel string, silence, ttl time.Duration, limit int) (keys []ledger.Key, err error) {
	instances, err := l.Instances(ctx)
	if err != nil || limit <= 0 {
		return nil, err
	}
	var silent []string
	for _, i := range instances {
		if i.Age > silence && i.Age < silence+2*ttl {
			silent = append(silent, i.ID)
		}
	}
	if len(silent) == 0 {
		return nil, nil
	}
	owners, err := jsonText(silent, false)
	if err != nil {
		return nil, err
	}
	now, err := l.clock.now()
	if err != nil {
		return nil, err
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		keys = nil
		return s.each(ctx, selectSilentLooks, []any{channel, timeText(now), timeText(now.Add(ttl)), owners, limit}, func(scan func(...any) error) error {
			var k ledger.Key
			err := scan(&k.RunID, &k.EffectKey)
			keys = append(keys, k)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read looks of silent owners: %w", err)
	}
	return keys, nil
}
