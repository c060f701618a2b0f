package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newHolds() *cobra.Command {
	c := &cobra.Command{Use: "holds", Short: "Look at what waits for a person"}
	c.AddCommand(newHoldsList())
	return c
}

func newHoldsList() *cobra.Command {
	var from reach
	var out output
	filter := pawlclient.IntentFilter{Held: true}
	c := &cobra.Command{
		Use:   "list",
		Short: "List held intents with the fence number that resolve wants",
		Long: `List held intents. Held means: nothing could settle what became of the effect, and the channel's policy leaves it to a
person. It is still probed, ever more rarely, and ends by itself if a probe finds it.

To decide one: pawl resolve RUN KEY --as sent|notsent|retry|unknown --number NUMBER --by WHO --reason WHY`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > 1000 {
				return usage("--limit: must be between 1 and 1000, is %d", filter.Limit)
			}
			return listIntents(c, from, out, filter, printHolds)
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&filter.RunID, "run", "", "only of this run")
	c.Flags().StringVar(&filter.Channel, "channel", "", "only of this channel")
	c.Flags().IntVar(&filter.Limit, "limit", 100, "at most this many, up to 1000")
	c.Flags().StringVar(&filter.After, "after", "", "go on after a page: what it printed as next")
	return c
}

func printHolds(w io.Writer, now time.Time, found []pawlclient.Intent) {
	row(w, "RUN", "KEY", "CHANNEL", "NUMBER", "HELD", "REASON")
	for _, i := range found {
		row(w, i.RunID, i.EffectKey, i.Channel, fmt.Sprint(i.FenceNumber), age(now, i.HeldAt), i.HoldReason)
	}
}
