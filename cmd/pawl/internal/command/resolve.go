package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

type decision struct {
	as, by, reason string
	number         int64
}

func newResolve() *cobra.Command {
	var from reach
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
			return from.with(c, func(s session) error {
				i, err := s.Resolve(c.Context(), k, pawlclient.Resolve{As: d.as, By: d.by, Reason: d.reason, Number: d.number})
				if err != nil {
					return fmt.Errorf("resolve %s %s: %w", k.RunID, k.EffectKey, err)
				}
				return out.print(c, i, func(w io.Writer) { printOutcome(w, i) })
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
