package command

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

// channelView is a channel as JSON. The fields are stable.
type channelView struct {
	Name             string    `json:"name"`
	Kind             string    `json:"kind"`
	Flag             string    `json:"flag"`
	Paused           bool      `json:"paused"`
	PauseReason      string    `json:"pause_reason,omitempty"`
	ApprovalRequired bool      `json:"approval_required"`
	RatePerMinute    int       `json:"rate_per_minute,omitempty"`
	Replay           string    `json:"replay"`
	Probe            string    `json:"probe"`
	UpdatedAt        time.Time `json:"updated_at,omitzero"`
}

func viewChannel(r ledger.ChannelRow) channelView {
	return channelView{
		Name: r.Name, Kind: r.Kind, Flag: string(r.Flag), Paused: r.Paused, PauseReason: r.PauseReason, ApprovalRequired: r.ApprovalRequired,
		RatePerMinute: r.RatePerMinute, Replay: string(r.Sheet.Replay), Probe: string(r.Sheet.Probe), UpdatedAt: r.UpdatedAt,
	}
}

func newChannels() *cobra.Command {
	c := &cobra.Command{
		Use:   "channels",
		Short: "Look at channels, pause them, turn them on or off",
		Long: `Look at channels and say what they do with claims. What is set here is kept in the ledger and counts for all engines at
once. An engine pauses a channel by itself when the outside system refuses its credentials; resume it when that is mended.`,
	}
	c.AddCommand(newChannelsList(), newChannelsPause(), newChannelsResume(), newChannelsFlag())
	return c
}

func newChannelsList() *cobra.Command {
	var from source
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List the channels that are in the ledger",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
				rows, err := l.ChannelRows(c.Context())
				if err != nil {
					return err
				}
				views := []channelView{}
				for _, r := range rows {
					views = append(views, viewChannel(r))
				}
				return out.print(c, views, func(w io.Writer) {
					row(w, "CHANNEL", "FLAG", "PAUSED", "APPROVAL", "RATE", "REPLAY", "PROBE", "REASON")
					for _, v := range views {
						row(w, v.Name, v.Flag, yes(v.Paused), yes(v.ApprovalRequired), rate(v.RatePerMinute), v.Replay, v.Probe, v.PauseReason)
					}
				})
			})
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func rate(perMinute int) string {
	if perMinute == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/min", perMinute)
}

// changeChannel is a command that changes one channel and prints it.
func changeChannel(c *cobra.Command, change func(c *cobra.Command, l ledger.Ledger, args []string) error) *cobra.Command {
	from, out := new(source), new(output)
	c.RunE = func(c *cobra.Command, args []string) error {
		return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
			if err := change(c, l, args); err != nil {
				return err
			}
			r, err := l.ChannelRow(c.Context(), args[0])
			if err != nil {
				return err
			}
			return out.print(c, viewChannel(r), func(w io.Writer) {
				row(w, r.Name, "flag "+string(r.Flag), "paused "+yes(r.Paused), r.PauseReason)
			})
		})
	}
	from.flags(c)
	out.flags(c)
	return c
}

func newChannelsPause() *cobra.Command {
	var reason string
	c := changeChannel(&cobra.Command{
		Use: "pause CHANNEL", Short: "Stop sending on a channel; claims are still taken", Args: exactly("CHANNEL"),
	}, func(c *cobra.Command, l ledger.Ledger, args []string) error {
		if reason == "" {
			return usage("--reason is missing: say why, for whoever resumes it")
		}
		return l.SetPaused(c.Context(), args[0], true, reason)
	})
	c.Flags().StringVar(&reason, "reason", "", "why; required")
	return c
}

func newChannelsResume() *cobra.Command {
	return changeChannel(&cobra.Command{
		Use: "resume CHANNEL", Short: "Let a paused channel send again", Args: exactly("CHANNEL"),
	}, func(c *cobra.Command, l ledger.Ledger, args []string) error {
		return l.SetPaused(c.Context(), args[0], false, "")
	})
}

func newChannelsFlag() *cobra.Command {
	flags := []string{string(ledger.FlagOn), string(ledger.FlagOff), string(ledger.FlagPaused), string(ledger.FlagShadow)}
	return changeChannel(&cobra.Command{
		Use:   "flag CHANNEL on|off|paused|shadow",
		Short: "Set what a channel does with claims",
		Long: `Set what a channel does with claims.

  on      claims are taken and sent
  off     claims are refused
  paused  claims are taken and wait
  shadow  everything but the send; turning the flag on later sends nothing that was claimed in shadow`,
		Args: exactly("CHANNEL", "FLAG"),
	}, func(c *cobra.Command, l ledger.Ledger, args []string) error {
		if !slices.Contains(flags, args[1]) {
			return usage("%q is no flag; %s", args[1], suggest(args[1], flags))
		}
		return l.SetFlag(c.Context(), args[0], ledger.Flag(args[1]))
	})
}
