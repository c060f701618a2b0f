package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

// readChannels reads the answer to channelsOf: the clock, and the channels that are known.
func readChannels(r rows) (map[string]ledger.ChannelRow, time.Time, error) {
	all := map[string]ledger.ChannelRow{}
	var now time.Time
	for r.Next() {
		var name, kind, sheet, flag, reason *string
		var paused, approval *bool
		var rate *int
		var updated *time.Time
		if err := r.Scan(&now, &name, &kind, &sheet, &flag, &paused, &reason, &approval, &rate, &updated); err != nil {
			return nil, now, err
		}
		if name == nil {
			continue
		}
		row := ledger.ChannelRow{
			Name: *name, Kind: *kind, Flag: ledger.Flag(*flag), Paused: *paused, PauseReason: *reason, ApprovalRequired: *approval,
			RatePerMinute: *rate, UpdatedAt: utc(updated),
		}
		if err := json.Unmarshal([]byte(*sheet), &row.Sheet); err != nil {
			return nil, now, fmt.Errorf("read sheet of channel %s: %w", *name, err)
		}
		all[*name] = row
	}
	return all, now.UTC(), r.Err()
}

// PutChannel stores a channel at start; flag and pause are kept if the row exists. [ledger.Ledger].
func (l *Ledger) PutChannel(ctx context.Context, row ledger.ChannelRow) error {
	if row.Flag == "" {
		row.Flag = ledger.FlagOn
	}
	if err := checkFlag(row.Flag); err != nil {
		return err
	}
	if row.Name == "" || row.Name == ledger.ChannelLocal {
		return &ledger.InvalidError{Field: "channel", Reason: fmt.Sprintf("%q cannot be configured; use kind or kind/name", row.Name)}
	}
	if len(row.Sheet.PayloadSchema) > 0 {
		if err := l.schemas.Compile(row.Sheet.PayloadSchema); err != nil {
			return err
		}
	}
	sheet, err := json.Marshal(row.Sheet)
	if err != nil {
		return fmt.Errorf("encode sheet of channel %s: %w", row.Name, err)
	}
	sql := fmt.Sprintf(`INSERT INTO %s AS c (channel, kind, sheet, flag, paused, pause_reason, approval_required, rate_per_minute)
VALUES ($1, $2, $3::text::jsonb, $4, $5, $6, $7, $8)
ON CONFLICT (channel) DO UPDATE SET kind = excluded.kind, sheet = excluded.sheet, approval_required = excluded.approval_required,
rate_per_minute = excluded.rate_per_minute, updated_at = clock_timestamp()
WHERE (c.kind, c.sheet, c.approval_required, c.rate_per_minute)
IS DISTINCT FROM (excluded.kind, excluded.sheet, excluded.approval_required, excluded.rate_per_minute)`, l.table("channels"))
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue(sql, row.Name, row.Kind, string(sheet), string(row.Flag), row.Paused, row.PauseReason, row.ApprovalRequired, row.RatePerMinute)
		return s.commit(ctx)
	})
}

func checkFlag(f ledger.Flag) error {
	switch f {
	case ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow, ledger.FlagOn:
		return nil
	}
	return &ledger.InvalidError{Field: "flag", Reason: fmt.Sprintf("%q is no flag; use off, paused, shadow or on", f)}
}

// ChannelRows returns all channels, by name.
func (l *Ledger) ChannelRows(ctx context.Context) ([]ledger.ChannelRow, error) {
	var all []ledger.ChannelRow
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(l.sql.channel + " ORDER BY channel").Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var row ledger.ChannelRow
				var sheet string
				if err := rows.Scan(&row.Name, &row.Kind, &sheet, (*string)(&row.Flag), &row.Paused, &row.PauseReason,
					&row.ApprovalRequired, &row.RatePerMinute, &row.UpdatedAt); err != nil {
					return err
				}
				if err := json.Unmarshal([]byte(sheet), &row.Sheet); err != nil {
					return fmt.Errorf("read sheet of channel %s: %w", row.Name, err)
				}
				row.UpdatedAt = row.UpdatedAt.UTC()
				all = append(all, row)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// ChannelRow returns one channel. [ledger.ErrUnknownChannel] names the known ones.
func (l *Ledger) ChannelRow(ctx context.Context, name string) (ledger.ChannelRow, error) {
	all, err := l.ChannelRows(ctx)
	if err != nil {
		return ledger.ChannelRow{}, err
	}
	names := make([]string, len(all))
	for n, row := range all {
		if row.Name == name {
			return row, nil
		}
		names[n] = row.Name
	}
	return ledger.ChannelRow{}, unknownChannel(name, names)
}

// maxNamed bounds how many known channels an error names.
const maxNamed = 100

func unknownChannel(name string, known []string) error {
	all := strings.Join(known[:min(len(known), maxNamed)], ", ")
	if all == "" {
		all = "none"
	}
	return fmt.Errorf("%w %q; known: %s", ledger.ErrUnknownChannel, name, all)
}

// SetFlag sets a channel's flag. [ledger.ErrUnknownChannel].
func (l *Ledger) SetFlag(ctx context.Context, name string, flag ledger.Flag) error {
	if err := checkFlag(flag); err != nil {
		return err
	}
	return l.setChannel(ctx, name, "flag = $2", string(flag))
}

// SetPaused pauses a channel or lets it go on. [ledger.ErrUnknownChannel].
func (l *Ledger) SetPaused(ctx context.Context, name string, paused bool, reason string) error {
	if !paused {
		reason = ""
	}
	return l.setChannel(ctx, name, "paused = $2, pause_reason = $3", paused, bounded(reason))
}

func (l *Ledger) setChannel(ctx context.Context, name, set string, args ...any) error {
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		known := false
		s.queue(fmt.Sprintf("UPDATE %s SET %s, updated_at = clock_timestamp() WHERE channel = $1 RETURNING true", l.table("channels"), set),
			append([]any{name}, args...)...).QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
		err := s.commit(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return ledger.ErrUnknownChannel
		}
		return err
	})
	if errors.Is(err, ledger.ErrUnknownChannel) {
		if _, named := l.ChannelRow(ctx, name); named != nil {
			return named
		}
	}
	return err
}

// TakeRate takes sends from the channel's shared rate. [ledger.Ledger].
func (l *Ledger) TakeRate(ctx context.Context, name string, want int) (granted int, wait time.Duration, err error) {
	err = l.transact(ctx, func(ctx context.Context, s *session) error {
		var perMinute int
		var have float64
		var since *time.Time
		var now time.Time
		s.queue(fmt.Sprintf("SELECT FROM %s WHERE channel = $1 FOR UPDATE", l.table("channels")), name)
		s.queue(fmt.Sprintf("SELECT rate_per_minute, rate_tokens, rate_at, clock_timestamp() FROM %s WHERE channel = $1", l.table("channels")), name).
			QueryRow(func(row pgx.Row) error { return row.Scan(&perMinute, &have, &since, &now) })
		if err := s.flush(ctx); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("channel %q: %w", name, ledger.ErrUnknownChannel)
		} else if err != nil {
			return err
		}
		if perMinute <= 0 {
			granted, wait = max(want, 0), 0
			return nil
		}
		perSecond := float64(perMinute) / 60
		full := max(perSecond, 1)
		if since == nil {
			have = full
		} else if passed := now.Sub(*since); passed > 0 {
			have = min(have+passed.Seconds()*perSecond, full)
		}
		if want < 0 { // given back
			granted, wait, have = 0, 0, min(have-float64(want), full)
		} else if granted, wait = min(want, int(have)), 0; granted == 0 {
			granted, wait = 0, max(time.Duration((1-have)/perSecond*float64(time.Second)), time.Millisecond)
			return nil
		}
		s.queue(fmt.Sprintf("UPDATE %s SET rate_tokens = $2, rate_at = $3 WHERE channel = $1", l.table("channels")), name, have-float64(granted), now)
		return s.commit(ctx)
	})
	return granted, wait, err
}
