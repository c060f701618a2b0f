package config

import (
	"log/slog"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Core is the policy in the engine's terms.
func (p Policy) Core() core.Policy {
	return core.Policy{
		Unknown: core.UnknownPolicy(p.Unknown), AcceptDuplicates: p.AcceptDuplicates, AcceptHeuristic: p.AcceptHeuristic,
		Lane: core.LanePolicy(p.Lane), SendTimeout: p.SendTimeout, CommitBound: p.CommitBound, Margin: p.Margin, FenceTTL: p.FenceTTL,
		ProbeTimeout: p.ProbeTimeout, Concurrency: p.Concurrency, StartCeiling: p.StartCeiling, AttemptCeiling: p.AttemptCeiling,
		BackoffFirst: p.BackoffFirst, BackoffMax: p.BackoffMax, ProbeEvery: p.ProbeEvery, HeldEvery: p.HeldEvery, HeldMax: p.HeldMax,
	}
}

// Sheet is the adapter's sheet as the configuration lets it count.
func (p Policy) Sheet(s channel.Sheet) channel.Sheet {
	if p.NoProbe {
		s.Probe, s.NegativeProof, s.ProbeHorizon = channel.ProbeNone, false, 0
	}
	return s
}

// Options is the channel in the engine's terms.
func (c Channel) Options(name string, speaks channel.Channel, sheet channel.Sheet) core.ChannelOptions {
	sheet = c.Policy.Sheet(sheet)
	return core.ChannelOptions{
		Name: name, Channel: speaks, Sheet: &sheet, Policy: c.Policy.Core(), Flag: ledger.Flag(c.Flag),
		ApprovalRequired: c.ApprovalRequired, RatePerMinute: c.RatePerMinute,
	}
}

// Options are the engine's options, without ledger, channels, version and logger.
func (e Engine) Options() core.Options {
	return core.Options{
		HeartbeatEvery: e.HeartbeatEvery, HeartbeatTimeout: e.HeartbeatTimeout, PollEvery: e.PollEvery, ScanEvery: e.ScanEvery,
		OwedEvery: e.OwedEvery, StopGrace: e.StopGrace, ClockAllowance: e.ClockAllowance, ReclaimRuns: e.ReclaimRuns,
		ReclaimCeiling: e.ReclaimCeiling,
	}
}

// Fence is the mapping in the ledger's terms.
func (l Leases) Fence() fence.Table {
	return fence.Table{Name: l.Table, RunID: l.RunID, Owner: l.Owner, Number: l.Number, ExpiresAt: l.ExpiresAt, Status: l.Status, Live: l.Live}
}

// SlogLevel is the level to log from.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo // an empty level; others were refused
	}
	return level
}
