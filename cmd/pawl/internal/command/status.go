package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// statusView is what status prints.
type statusView struct {
	Ledger    string               `json:"ledger"`
	Epoch     int64                `json:"epoch,omitempty"`
	Stats     pawlclient.Stats     `json:"stats"`
	Engines   []pawlclient.Engine  `json:"engines"`
	Channels  []pawlclient.Channel `json:"channels"`
	Attention []attention          `json:"attention"`
}

// attention is one thing that needs a person, and what to type next.
type attention struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

const (
	leastEvery = 200 * time.Millisecond
	// shownHolds is how many held effects the screen names.
	shownHolds = 5
	// clearScreen moves to the top and clears what was there.
	clearScreen = "\x1b[H\x1b[2J"
)

func newStatus() *cobra.Command {
	var from reach
	var out output
	var watch bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "One screen: what runs, what waits, and what needs a person",
		Long: `One screen: the engines that are alive, each channel with what waits on it, and what needs a person, with the command to type
next. The exit code is 1 if something needs a person.`,
		Example: `  pawl status
  pawl status --watch
  pawl status --json || page-somebody`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < leastEvery {
				return usage("--every: must be at least %s, is %s", leastEvery, every)
			}
			ctx, stop := c.Context(), func() {}
			if watch {
				ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			}
			defer stop()
			c.SetContext(ctx)
			return from.with(c, func(s session) error {
				if watch {
					return watchStatus(ctx, c, s, out, every)
				}
				v, err := readStatus(ctx, s)
				if err != nil {
					return err
				}
				if err := out.print(c, v, func(w io.Writer) { printStatus(w, v) }); err != nil || len(v.Attention) == 0 {
					return err
				}
				return silently(ExitNo)
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().BoolVar(&watch, "watch", false, "look again and again, until interrupted")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: how often")
	return c
}

// watchStatus goes on over errors: what watches must not end when what is watched does.
func watchStatus(ctx context.Context, c *cobra.Command, s session, out output, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		v, err := readStatus(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if !out.json {
			fmt.Fprint(c.OutOrStdout(), clearScreen)
		}
		if err == nil {
			err = out.print(c, v, func(w io.Writer) { printStatus(w, v) })
			if err != nil { // nobody reads
				return err
			}
		} else {
			for _, line := range errorLines(err) {
				fmt.Fprintln(c.ErrOrStderr(), "pawl: "+line)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func readStatus(ctx context.Context, s session) (statusView, error) {
	v := statusView{Ledger: s.where}
	var err error
	if v.Stats, err = s.Stats(ctx); err != nil {
		return v, err
	}
	engines, err := s.Engines(ctx)
	if err != nil {
		return v, err
	}
	v.Engines = append([]pawlclient.Engine{}, engines...)
	channels, err := s.Channels(ctx)
	if err != nil {
		return v, err
	}
	v.Channels = append([]pawlclient.Channel{}, channels...)
	lives, err := s.Epochs(ctx)
	if err != nil {
		return v, err
	}
	if len(lives) > 0 {
		v.Epoch = lives[len(lives)-1].Epoch
	}
	var held []pawlclient.Intent
	if v.Stats.Held > 0 {
		page, err := s.Intents(ctx, pawlclient.IntentFilter{Held: true, Limit: shownHolds})
		if err != nil {
			return v, err
		}
		held = page.Intents
	}
	v.Attention = needs(v, held)
	return v, nil
}
