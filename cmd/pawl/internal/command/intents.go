package command

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newIntents() *cobra.Command {
	c := &cobra.Command{Use: "intents", Short: "Look at intents, or cancel one"}
	c.AddCommand(newIntentsList(), newIntentsShow(), newIntentsCancel())
	return c
}

func newIntentsList() *cobra.Command {
	var from reach
	var out output
	var filter pawlclient.IntentFilter
	c := &cobra.Command{
		Use:     "list",
		Short:   "List intents, newest claim first",
		Example: `  pawl intents list --channel mail/marketing --state dispatched`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			states := []string{"intent", "dispatched", "committed", "abandoned"}
			if filter.State != "" && !slices.Contains(states, filter.State) {
				return usage("--state: %q is no state; %s", filter.State, suggest(filter.State, states))
			}
			if filter.Limit < 1 || filter.Limit > 1000 {
				return usage("--limit: must be between 1 and 1000, is %d", filter.Limit)
			}
			return listIntents(c, from, out, filter, printIntents)
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&filter.RunID, "run", "", "only of this run")
	c.Flags().StringVar(&filter.Channel, "channel", "", "only of this channel")
	c.Flags().StringVar(&filter.State, "state", "", "only in this state: intent, dispatched, committed, abandoned")
	c.Flags().BoolVar(&filter.Held, "held", false, "only held ones")
	c.Flags().IntVar(&filter.Limit, "limit", 100, "at most this many, up to 1000")
	c.Flags().StringVar(&filter.After, "after", "", "go on after a page: what it printed as next")
	return c
}

func listIntents(c *cobra.Command, from reach, out output, filter pawlclient.IntentFilter, text func(w io.Writer, now time.Time, found []pawlclient.Intent)) error {
	run, err := runOf("--run", filter.RunID)
	if err != nil {
		return err
	}
	filter.RunID = run
	return from.with(c, func(s session) error {
		page, err := s.Intents(c.Context(), filter)
		if err != nil {
			return err
		}
		now, err := s.clock(c.Context())
		if err != nil {
			return err
		}
		return out.print(c, page, func(w io.Writer) {
			if text(w, now, page.Intents); page.Next != "" {
				fmt.Fprintf(w, "more: --after %s\n", page.Next)
			}
		})
	})
}

func printIntents(w io.Writer, now time.Time, found []pawlclient.Intent) {
	row(w, "RUN", "KEY", "CHANNEL", "STATE", "OUTCOME", "ATTEMPTS", "AGE")
	for _, i := range found {
		row(w, i.RunID, i.EffectKey, i.Channel, i.State, i.Outcome, fmt.Sprint(i.Attempts), age(now, i.CreatedAt))
	}
}

func newIntentsShow() *cobra.Command {
	var from reach
	var out output
	var payload bool
	c := &cobra.Command{
		Use:   "show RUN KEY",
		Short: "Show one intent with its log, tokens and receipts",
		Args:  exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c, func(s session) error {
				d, err := s.Intent(c.Context(), k, payload)
				if err != nil {
					return fmt.Errorf("intent %s %s: %w", k.RunID, k.EffectKey, err)
				}
				for n := range d.Receipts { // pawl receipt export prints them
					d.Receipts[n].Envelope = nil
				}
				return out.print(c, d, func(w io.Writer) { printDetail(w, d) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().BoolVar(&payload, "payload", false, "show the payload, too; it may hold personal data")
	return c
}

func newIntentsCancel() *cobra.Command {
	var from reach
	var out output
	var by, reason string
	c := &cobra.Command{
		Use:   "cancel RUN KEY",
		Short: "Ask for the end of an intent",
		Long: `Ask for the end of an intent. What was never sent ends at once, as never sent. Where an attempt may have taken effect,
nothing more is sent, and it is found out first what became of it.`,
		Args: exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if by == "" {
				return usage("--by is missing: say who cancels")
			}
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c, func(s session) error {
				i, err := s.Cancel(c.Context(), k, pawlclient.Cancel{By: by, Reason: reason})
				if err != nil {
					return fmt.Errorf("cancel %s %s: %w", k.RunID, k.EffectKey, err)
				}
				return out.print(c, i, func(w io.Writer) { printOutcome(w, i) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&by, "by", "", "who cancels; required")
	c.Flags().StringVar(&reason, "reason", "no reason was given", "why")
	return c
}

// keyOf reads RUN and KEY.
func keyOf(args []string) (pawlclient.Key, error) {
	run, err := runOf("RUN", args[0])
	return pawlclient.Key{RunID: run, EffectKey: args[1]}, err
}

// runOf reads a run's id as the ledger writes it. An empty one stays empty.
func runOf(name, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return "", usage("%s: %q is not a UUID", name, cut(text))
	}
	return id.String(), nil
}
