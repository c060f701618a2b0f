package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

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
	var from reach
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List the channels that are in the ledger",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			return from.with(c, func(s session) error {
				views, err := s.Channels(c.Context())
				if err != nil {
					return err
				}
				return out.print(c, append([]pawlclient.Channel{}, views...), func(w io.Writer) {
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
func changeChannel(c *cobra.Command, change func(c *cobra.Command, s session, by string, args []string) (pawlclient.Channel, error)) *cobra.Command {
	from, out, by := new(reach), new(output), ""
	c.RunE = func(c *cobra.Command, args []string) error {
		return from.with(c, func(s session) error {
			if by == "" {
				by = login()
			}
			v, err := change(c, s, by, args)
			if err != nil {
				return unknownChannel(err)
			}
			return out.print(c, v, func(w io.Writer) {
				row(w, v.Name, "flag "+v.Flag, "paused "+yes(v.Paused), v.PauseReason)
			})
		})
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&by, "by", "", "who does it, for the audit trail (default: your login name)")
	return c
}

func pauseChannel(use, short string) *cobra.Command {
	var reason string
	c := changeChannel(&cobra.Command{
		Use: use, Short: short, Args: exactly("CHANNEL"),
	}, func(c *cobra.Command, s session, by string, args []string) (pawlclient.Channel, error) {
		if reason == "" {
			return pawlclient.Channel{}, usage("--reason is missing: say why, for whoever resumes it")
		}
		return s.PauseChannel(c.Context(), args[0], by, reason)
	})
	c.Flags().StringVar(&reason, "reason", "", "why; required")
	return c
}

func resumeChannel(use, short string) *cobra.Command {
	return changeChannel(&cobra.Command{
		Use: use, Short: short, Args: exactly("CHANNEL"),
	}, func(c *cobra.Command, s session, by string, args []string) (pawlclient.Channel, error) {
		return s.ResumeChannel(c.Context(), args[0], by)
	})
}

const (
	shortPause  = "Stop sending on a channel; claims are still taken"
	shortResume = "Let a paused channel send again"
)

func newChannelsPause() *cobra.Command  { return pauseChannel("pause CHANNEL", shortPause) }
func newChannelsResume() *cobra.Command { return resumeChannel("resume CHANNEL", shortResume) }

// newPause and newResume are the short forms.
func newPause() *cobra.Command  { return pauseChannel("pause CHANNEL", shortPause) }
func newResume() *cobra.Command { return resumeChannel("resume CHANNEL", shortResume) }

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
	}, func(c *cobra.Command, s session, by string, args []string) (pawlclient.Channel, error) {
		if !slices.Contains(flags, args[1]) {
			return pawlclient.Channel{}, usage("%q is no flag; %s", args[1], suggest(args[1], flags))
		}
		return s.SetFlag(c.Context(), args[0], by, args[1])
	})
}
