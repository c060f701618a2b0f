package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newPrune() *cobra.Command {
	var from reach
	var out output
	var older inDays
	var p pawlclient.Prune
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove payloads, tokens and logs of effects that ended long ago",
		Long: `Remove payloads, tokens and logs of effects that ended long ago, and engines that stopped long ago. Run, key, digest, state,
external id and receipts stay for ever: a claim of the key is still deduplicated. An effect whose receipt is owed is left.
What was pruned cannot be redriven, and explain has no log to tell from.`,
		Example: `  pawl prune --older-than 90d --dry-run
  pawl prune --older-than 90d`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			age := time.Duration(older)
			switch {
			case !c.Flags().Changed("older-than"):
				return usage("--older-than is missing: say how long ago they ended at least, such as 90d")
			case age < ledger.MinRetention:
				return usage("--older-than: must be at least %s, is %s", ledger.MinRetention, age)
			}
			if p.OlderThan = age.Seconds(); p.By == "" {
				p.By = login()
			}
			return from.with(c, func(s session) error { return prune(c, s, out, p) })
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().Var(&older, "older-than", "only what ended longer ago than this, such as 90d; at least 1d; required")
	c.Flags().BoolVar(&p.DryRun, "dry-run", false, "count, and remove nothing")
	c.Flags().StringVar(&p.By, "by", "", "who does it, for the audit trail (default: your login name)")
	return c
}

// stillAt is how often a long prune says that it goes on.
const stillAt = 5 * time.Second

// prune says on standard error that it goes on: it may take long, and its result is one answer.
func prune(c *cobra.Command, s session, out output, p pawlclient.Prune) error {
	begun, done, told := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(stillAt)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(c.ErrOrStderr(), "pruning for %s; stopping it loses nothing, what is done stays done\n", time.Since(begun).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	r, err := s.Prune(c.Context(), p)
	close(done)
	<-told
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return out.print(c, r, func(w io.Writer) {
		what := "removed"
		if r.DryRun {
			what = "would be removed"
		}
		row(w, "INTENTS", "TOKENS", "LOG ROWS", "ENGINES", "")
		row(w, fmt.Sprint(r.Intents), fmt.Sprint(r.Tokens), fmt.Sprint(r.LogRows), fmt.Sprint(r.Instances), what)
	})
}
