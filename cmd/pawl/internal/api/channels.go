package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Channels lists the channels in order of their names.
func (s *Service) Channels(ctx context.Context) ([]pawlclient.Channel, error) {
	rows, err := s.ledger.ChannelRows(ctx)
	if err != nil {
		return nil, problem(err, "path")
	}
	stats, err := s.ledger.Stats(ctx)
	if err != nil {
		return nil, problem(err, "path")
	}
	views := []pawlclient.Channel{}
	for _, r := range rows {
		view, err := s.viewChannel(r, stats)
		if err != nil {
			return nil, problem(err, "path")
		}
		views = append(views, view)
	}
	return views, nil
}

// Channel returns one channel.
func (s *Service) Channel(ctx context.Context, name string) (pawlclient.Channel, error) {
	if err := needText("path.channel", name, maxKey, "name the channel"); err != nil {
		return pawlclient.Channel{}, err
	}
	row, err := s.ledger.ChannelRow(ctx, name)
	if err != nil {
		return pawlclient.Channel{}, problem(err, "path")
	}
	stats, err := s.ledger.Stats(ctx)
	if err != nil {
		return pawlclient.Channel{}, problem(err, "path")
	}
	view, err := s.viewChannel(row, stats)
	return view, problem(err, "path")
}

func (s *Service) viewChannel(r ledger.ChannelRow, stats ledger.Stats) (pawlclient.Channel, error) {
	counts := stats.Channels[r.Name]
	view := pawlclient.Channel{
		Name: r.Name, Kind: r.Kind, Flag: string(r.Flag), Paused: r.Paused, PauseReason: r.PauseReason, ApprovalRequired: r.ApprovalRequired,
		RatePerMinute: r.RatePerMinute, Replay: string(r.Sheet.Replay), Probe: string(r.Sheet.Probe), UpdatedAt: r.UpdatedAt,
		Waiting: counts.Waiting, Dispatched: counts.Dispatched, Accepted: counts.Accepted, Held: counts.Held,
		OldestWaiting: counts.OldestWaiting.Seconds(), OldestUnknown: counts.OldestUnknown.Seconds(),
	}
	if seen, ok := s.health(r.Name); ok {
		view.Health = &seen
	}
	sheet, err := json.Marshal(r.Sheet)
	view.Sheet = sheet
	return view, err
}

// PauseChannel stops sending on a channel. Claims are still taken.
func (s *Service) PauseChannel(ctx context.Context, name, by, reason string) (pawlclient.Channel, error) {
	if err := needText("body.reason", reason, maxReason, "say why, for whoever resumes it"); err != nil {
		return pawlclient.Channel{}, err
	}
	return s.changeChannel(ctx, "channel.pause", name, by, map[string]any{"reason": reason}, func() error {
		return s.ledger.SetPaused(ctx, name, true, reason)
	})
}

// ResumeChannel lets a paused channel send again.
func (s *Service) ResumeChannel(ctx context.Context, name, by string) (pawlclient.Channel, error) {
	c, err := s.changeChannel(ctx, "channel.resume", name, by, nil, func() error {
		return s.ledger.SetPaused(ctx, name, false, "")
	})
	if err == nil {
		s.wake(name)
	}
	return c, err
}

// SetFlag says what a channel does with claims: on, off, paused, shadow.
func (s *Service) SetFlag(ctx context.Context, name, by, flag string) (pawlclient.Channel, error) {
	flags := []ledger.Flag{ledger.FlagOn, ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow}
	if !slices.Contains(flags, ledger.Flag(flag)) {
		return pawlclient.Channel{}, invalid("body.flag", "must be on, off, paused or shadow")
	}
	c, err := s.changeChannel(ctx, "channel.flag", name, by, map[string]any{"flag": flag}, func() error {
		return s.ledger.SetFlag(ctx, name, ledger.Flag(flag))
	})
	if err == nil {
		s.wake(name)
	}
	return c, err
}

func (s *Service) changeChannel(ctx context.Context, what, name, by string, detail map[string]any, change func() error) (pawlclient.Channel, error) {
	actor, by, err := s.acting(ctx, by)
	if err == nil {
		err = needText("path.channel", name, maxKey, "name the channel")
	}
	if err != nil {
		return pawlclient.Channel{}, err
	}
	a := action{actor: actor, by: by, name: what, subject: name, detail: detail}
	if err := s.audited(ctx, a, func() error { return problem(change(), "body") }); err != nil {
		return pawlclient.Channel{}, err
	}
	return s.Channel(ctx, name)
}
