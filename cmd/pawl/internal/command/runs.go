package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newRuns() *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "Look at a run and its lease, or cancel it"}
	c.AddCommand(newRunsShow(), newRunsCancel())
	return c
}

func printRun(w io.Writer, r pawlclient.Run) {
	row(w, "run", r.ID)
	row(w, "status", r.Status)
	optional(w, "held by", r.Owner)
	row(w, "number", fmt.Sprint(r.Number))
	optional(w, "lease until", stamp(r.ExpiresAt))
	row(w, "reclaimed", fmt.Sprint(r.Retries))
	optional(w, "idempotency key", r.IdempotencyKey)
	row(w, "made", stamp(r.CreatedAt))
	row(w, "changed", stamp(r.UpdatedAt))
}

func newRunsShow() *cobra.Command {
	var from reach
	var out output
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run and its lease",
		Args:  exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := runOf("RUN", args[0])
			if err != nil {
				return err
			}
			return from.with(c, func(s session) error {
				r, err := s.Run(c.Context(), id)
				if err != nil {
					return fmt.Errorf("run %s: %w", id, err)
				}
				return out.print(c, r, func(w io.Writer) { printRun(w, r) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

func newRunsCancel() *cobra.Command {
	var from reach
	var out output
	var by, reason string
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run, whoever holds it, and cancel its unsent effects",
		Args:  exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := runOf("RUN", args[0])
			switch {
			case err != nil:
				return err
			case by == "":
				return usage("--by is missing: say who cancels")
			case reason == "":
				return usage("--reason is missing: say why")
			}
			return from.with(c, func(s session) error {
				r, err := s.CancelRun(c.Context(), id, pawlclient.Cancel{By: by, Reason: reason})
				if err != nil {
					return fmt.Errorf("cancel run %s: %w", id, err)
				}
				return out.print(c, r, func(w io.Writer) { printRun(w, r) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&by, "by", "", "who cancels; required")
	c.Flags().StringVar(&reason, "reason", "", "why; required")
	return c
}
