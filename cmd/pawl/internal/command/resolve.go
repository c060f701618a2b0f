package command

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

// resolveFence is how long a person's decision may take to be written once it is made.
const resolveFence = 30 * time.Second

type decision struct {
	as, by, reason string
	number         int64
}

func newResolve() *cobra.Command {
	var from source
	var out output
	var d decision
	c := &cobra.Command{
		Use:   "resolve RUN KEY",
		Short: "Decide, as a named person, what became of an intent",
		Long: `Decide, as a named person, what became of an intent that nothing could settle.

  sent     it took effect: committed, by your word; the receipt names you
  notsent  it did not take effect and never will: abandoned as never sent
  retry    it did not take effect and never will: it is sent again
  unknown  nobody will know: abandoned as unknown

Look at the outside system first: notsent and retry are promises, and a wrong retry sends twice. --number is the fence
number that holds list or intents show printed: if the intent has changed since, nothing is decided.`,
		Example: `  pawl resolve 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 mail:6b5…:a31… --as sent --number 4 \
    --by "Ada Lovelace" --reason "it is in the recipient's mailbox"`,
		Args: exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c.Context(), func(l ledger.Ledger, cfg config.Config) error {
				i, err := d.make(c, l, k, cfg)
				if err != nil {
					return fmt.Errorf("resolve %s: %w", k, err)
				}
				return out.print(c, viewIntent(i), func(w io.Writer) { printOutcome(w, i) })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&d.as, "as", "", "sent, notsent, retry or unknown; required")
	c.Flags().StringVar(&d.by, "by", "", "who decides; required")
	c.Flags().StringVar(&d.reason, "reason", "", "why; required")
	c.Flags().Int64Var(&d.number, "number", 0, "fence number that was shown; required")
	return c
}

func (d decision) check() error {
	decisions := []string{string(ledger.DecideSent), string(ledger.DecideNotSent), string(ledger.DecideRetry), string(ledger.DecideUnknown)}
	switch {
	case d.as == "":
		return usage("--as is missing: say sent, notsent, retry or unknown")
	case !slices.Contains(decisions, d.as):
		return usage("--as: %q is no decision; %s", d.as, suggest(d.as, decisions))
	case d.by == "":
		return usage("--by is missing: say who decides")
	case d.reason == "":
		return usage("--reason is missing: say why")
	case d.number <= 0:
		return usage("--number is missing: give the fence number that holds list or intents show prints")
	}
	return nil
}

// make takes a probing fence on the row as it was shown, then decides.
func (d decision) make(c *cobra.Command, l ledger.Ledger, k ledger.Key, cfg config.Config) (ledger.Intent, error) {
	taken, err := l.Move(c.Context(), k, ledger.ProbeFence{
		Owner: "person-" + uuid.NewString(), TTL: resolveFence, ClockAllowance: cfg.Engine.ClockAllowance, Number: d.number, Person: true,
	})
	if err != nil {
		return taken.Intent, err
	}
	if !taken.Applied {
		return taken.Intent, no("late evidence has settled it meanwhile; look again")
	}
	r, err := l.Move(c.Context(), k, ledger.Resolve{Fence: taken.Intent.Fence(), As: ledger.Decision(d.as), By: d.by, Reason: d.reason})
	if err == nil && !r.Applied {
		err = no("late evidence has settled it meanwhile; look again")
	}
	return r.Intent, err
}
