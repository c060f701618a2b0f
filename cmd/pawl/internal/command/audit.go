package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newAudit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Look at what operators asked for, and what came of it",
		Long: `Look at what operators asked for, and what came of it: decisions on effects, pauses and flags, tokens, epochs, pruning.
Each has two rows, asked and then done or refused.`,
	}
	c.AddCommand(newAuditList())
	return c
}

func newAuditList() *cobra.Command {
	var from reach
	var out output
	var limit int
	var after string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the audit trail, newest first",
		Long: `List the audit trail, newest first. An action has a row when it is asked for, and another with what came of it: done or
refused. One that was asked for and has no second row was cut off: look at what it was about.`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return usage("--limit: must be between 1 and 1000, is %d", limit)
			}
			return from.with(c, func(s session) error {
				page, err := s.Audit(c.Context(), limit, after)
				if err != nil {
					return err
				}
				return out.print(c, page, func(w io.Writer) { printAudit(w, page) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "at most this many, up to 1000")
	c.Flags().StringVar(&after, "after", "", "go on after a page: what it printed as next")
	return c
}

func printAudit(w io.Writer, page pawlclient.AuditPage) {
	row(w, "AT", "WHO", "ACTION", "RESULT", "ABOUT", "DETAIL")
	for _, e := range page.Entries {
		row(w, stamp(e.At), e.Actor, e.Action, e.Result, e.Subject, string(e.Detail))
	}
	if page.Next != "" {
		fmt.Fprintf(w, "more: --after %s\n", page.Next)
	}
}
