package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlworks/pawl/ledger"
)

const channelColumns = "name, kind, sheet, flag, paused, pause_reason, approval_required, rate_per_minute, updated_at"

func scanChannel(scan func(...any) error) (ledger.ChannelRow, error) {
	var r ledger.ChannelRow
	var sheet string
	if err := scan(&r.Name, &r.Kind, &sheet, &r.Flag, &r.Paused, &r.PauseReason, &r.ApprovalRequired, &r.RatePerMinute,
		scanTime{&r.UpdatedAt}); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(sheet), &r.Sheet); err != nil {
		return r, fmt.Errorf("read sheet of channel %s: %w", r.Name, err)
	}
	return r, nil
}

// PutChannel implements [ledger.Channels].
func (l *Ledger) PutChannel(ctx context.Context, row ledger.ChannelRow) error {
	if len(row.Sheet.PayloadSchema) > 0 {
		if err := l.schemas.Compile(row.Sheet.PayloadSchema); err != nil {
			return fmt.Errorf("put channel %s: %w", row.Name, err)
		}
	}
	switch row.Flag {
	case "":
		row.Flag = ledger.FlagOn
	case ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow, ledger.FlagOn:
	default:
		return &ledger.InvalidError{Field: "flag", Reason: fmt.Sprintf("%q is none of off, paused, shadow, on", row.Flag)}
	}
	if row.Name == "" || row.Name == ledger.ChannelLocal {
		return &ledger.InvalidError{Field: "channel", Reason: "needs a name, and not that of the built-in channel local"}
	}
	sheet, err := json.Marshal(row.Sheet)
	if err != nil {
		return fmt.Errorf("put channel %s: %w", row.Name, err)
	}
	return l.writer.do(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		_, err = s.exec(ctx, `INSERT INTO channels (name, kind, sheet, flag, paused, pause_reason, approval_required, rate_per_minute, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, sheet = excluded.sheet,
			approval_required = excluded.approval_required, rate_per_minute = excluded.rate_per_minute, updated_at = excluded.updated_at`,
			row.Name, row.Kind, string(sheet), string(row.Flag), row.Paused, row.PauseReason, row.ApprovalRequired, row.RatePerMinute, timeText(now))
		if err != nil {
			return fmt.Errorf("put channel %s: %w", row.Name, err)
		}
		return nil
	})
}

// ChannelRow implements [ledger.Channels].
func (l *Ledger) ChannelRow(ctx context.Context, name string) (row ledger.ChannelRow, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		row, err = s.channelRow(ctx, name)
		return err
	})
	return row, err
}

func (s *session) channelRow(ctx context.Context, name string) (row ledger.ChannelRow, err error) {
	found := false
	err = s.each(ctx, "SELECT "+channelColumns+" FROM channels WHERE name = ?", []any{name}, func(scan func(...any) error) error {
		found = true
		row, err = scanChannel(scan)
		return err
	})
	if err != nil {
		return row, fmt.Errorf("read channel %s: %w", name, err)
	}
	if !found {
		return row, s.unknownChannel(ctx, name)
	}
	return row, nil
}

// unknownChannel names the channels that there are.
func (s *session) unknownChannel(ctx context.Context, name string) error {
	var known []string
	err := s.each(ctx, "SELECT name FROM channels ORDER BY name LIMIT 50", nil, func(scan func(...any) error) error {
		var n string
		err := scan(&n)
		known = append(known, n)
		return err
	})
	if err != nil {
		return fmt.Errorf("read channels: %w", err)
	}
	if len(known) == 0 {
		return fmt.Errorf("%w %q: the ledger has none yet; configure it and start the engine", ledger.ErrUnknownChannel, name)
	}
	return fmt.Errorf("%w %q: the ledger has %s", ledger.ErrUnknownChannel, name, strings.Join(known, ", "))
}

// ChannelRows implements [ledger.Channels].
func (l *Ledger) ChannelRows(ctx context.Context) (all []ledger.ChannelRow, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, "SELECT "+channelColumns+" FROM channels ORDER BY name", nil, func(scan func(...any) error) error {
			r, err := scanChannel(scan)
			all = append(all, r)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read channels: %w", err)
	}
	return all, nil
}

// SetFlag implements [ledger.Channels].
func (l *Ledger) SetFlag(ctx context.Context, name string, flag ledger.Flag) error {
	switch flag {
	case ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow, ledger.FlagOn:
	default:
		return &ledger.InvalidError{Field: "flag", Reason: fmt.Sprintf("%q is none of off, paused, shadow, on", flag)}
	}
	return l.setChannel(ctx, name, "flag = ?", string(flag))
}

// SetPaused implements [ledger.Channels].
func (l *Ledger) SetPaused(ctx context.Context, name string, paused bool, reason string) error {
	if !paused {
		reason = ""
	}
	return l.setChannel(ctx, name, "paused = ?, pause_reason = ?", paused, bounded(reason))
}

func (l *Ledger) setChannel(ctx context.Context, name, set string, values ...any) error {
	return l.writer.do(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		n, err := s.exec(ctx, "UPDATE channels SET "+set+", updated_at = ? WHERE name = ?", append(slices.Clone(values), timeText(now), name)...)
		if err != nil {
			return fmt.Errorf("set channel %s: %w", name, err)
		}
		if n == 0 {
			return s.unknownChannel(ctx, name)
		}
		return nil
	})
}
