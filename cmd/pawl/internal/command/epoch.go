package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newEpoch() *cobra.Command {
	c := &cobra.Command{
		Use:   "epoch",
		Short: "Look at the lives of the ledger, or begin a new one after a restore",
		Long: `A ledger that was restored to an older state has forgotten what was sent since. Opening an epoch says so: everything that has
not ended, and for a while every new claim, is looked for on the outside system before it is sent.`,
	}
	c.AddCommand(newEpochShow(), newEpochOpen())
	return c
}

func newEpochShow() *cobra.Command {
	var from reach
	var out output
	c := &cobra.Command{
		Use:   "show",
		Short: "List the lives of the ledger, the present one last",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			return from.with(c, func(s session) error {
				lives, err := s.Epochs(c.Context())
				if err != nil {
					return err
				}
				return out.print(c, append([]pawlclient.Epoch{}, lives...), func(w io.Writer) { printEpochs(w, lives) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

func printEpochs(w io.Writer, lives []pawlclient.Epoch) {
	row(w, "EPOCH", "OPENED", "HORIZON", "BY", "REASON")
	for _, e := range lives {
		row(w, fmt.Sprint(e.Epoch), stamp(e.OpenedAt), span(e.Horizon), orDash(e.By), e.Reason)
	}
}

// span is a duration that the API gives in seconds.
func span(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

func newEpochOpen() *cobra.Command {
	var from reach
	var out output
	var o pawlclient.OpenEpoch
	var horizon inDays
	c := &cobra.Command{
		Use:   "open",
		Short: "Begin a new life of the ledger, after it was restored to an older state",
		Long: `Begin a new life of the ledger, after it was restored to an older state: from a backup, or by a standby that had not got
everything. Stop all engines first. Every effect that has not ended counts as one that may have taken place, and is looked for
before it is sent; so does a new claim until the horizon has passed, because its caller may only be repeating what the old
state knew.

--from is the present epoch, as epoch show prints it: if it is another one by now, nothing is changed.`,
		Example: `  pawl epoch show
  pawl epoch open --from 1 --horizon 48h --by "Ada Lovelace" --reason "restored from last night's backup"`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.From < 1:
				return usage("--from is missing: give the present epoch, as pawl epoch show prints it")
			case horizon <= 0:
				return usage("--horizon is missing: say for how long callers may repeat what the old state knew, such as 48h")
			case o.By == "":
				return usage("--by is missing: say who opens it")
			case o.Reason == "":
				return usage("--reason is missing: say why")
			}
			o.Horizon = time.Duration(horizon).Seconds()
			return from.with(c, func(s session) error {
				e, err := s.OpenEpoch(c.Context(), o)
				if err != nil {
					return fmt.Errorf("open an epoch: %w", err)
				}
				return out.print(c, e, func(w io.Writer) { printEpochs(w, []pawlclient.Epoch{e}) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().Int64Var(&o.From, "from", 0, "the present epoch; required")
	c.Flags().Var(&horizon, "horizon", "the longest time over which callers repeat claims, such as 48h or 7d; required")
	c.Flags().StringVar(&o.By, "by", "", "who opens it; required")
	c.Flags().StringVar(&o.Reason, "reason", "", "why; required")
	return c
}
