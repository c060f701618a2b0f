package core

import (
	"context"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// Limits are what can change on a channel while the engine runs. Nil and empty fields change nothing.
type Limits struct {
	Flag             ledger.Flag // shared by all engines
	RatePerMinute    *int        // shared by all engines; 0: the sheet's, or none
	ApprovalRequired *bool       // shared by all engines
	// Concurrency is how many sends may be under way at once in this engine; 0: the default. With a smaller one nothing under way
	// is cut: the next send waits. The sheet's limit counts as well.
	Concurrency *int
}

// Adjust changes limits of a channel, in the ledger and in this engine, whether it runs or not. A [*ConfigError] names what is
// wrong, and nothing is changed; after an error of the ledger, what is shared may be changed in part, and Adjust can be called again.
// [ErrNotConfigured].
func (e *Engine) Adjust(ctx context.Context, channelName string, l Limits) error {
	out := e.channels.get(channelName)
	if out == nil {
		return errNoChannel(channelName)
	}
	policy := out.policy
	if l.Concurrency != nil {
		policy.Concurrency = *l.Concurrency
		policy = policy.withDefaults(out.sheet)
	}
	fault := policy.validate(out.sheet, e.options.ClockAllowance)
	switch l.Flag {
	case "", ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow, ledger.FlagOn:
	default:
		fault = fmt.Errorf("flag: %q is none of off, paused, shadow, on", l.Flag)
	}
	if l.RatePerMinute != nil && *l.RatePerMinute < 0 {
		fault = fmt.Errorf("rate_per_minute: must not be negative, is %d", *l.RatePerMinute)
	}
	if fault != nil {
		return &ConfigError{fmt.Errorf("channel %s: %w", channelName, fault)}
	}
	if err := e.adjustShared(ctx, out, l); err != nil {
		return fmt.Errorf("adjust channel %s: %w", channelName, err)
	}
	if l.Concurrency != nil {
		out.slots.resize(policy.Concurrency)
	}
	out.wake.wakeAll()
	return nil
}

// adjustShared writes what all engines share. What l leaves out stays as it is in the ledger: a person may have set it.
func (e *Engine) adjustShared(ctx context.Context, out *outlet, l Limits) error {
	if l.RatePerMinute != nil || l.ApprovalRequired != nil {
		row, err := e.ledger.ChannelRow(ctx, out.name)
		if err != nil {
			return err
		}
		row.Sheet, row.Kind = out.sheet, out.sheet.Kind
		if l.RatePerMinute != nil {
			if row.RatePerMinute = *l.RatePerMinute; row.RatePerMinute == 0 {
				row.RatePerMinute = out.sheet.RatePerMinute
			}
		}
		if l.ApprovalRequired != nil {
			row.ApprovalRequired = *l.ApprovalRequired
		}
		if err := e.ledger.PutChannel(ctx, row); err != nil {
			return err
		}
		out.approvalRequired.Store(row.ApprovalRequired)
		out.rate.Store(int64(row.RatePerMinute))
	}
	if l.Flag != "" {
		return e.ledger.SetFlag(ctx, out.name, l.Flag)
	}
	return nil
}
