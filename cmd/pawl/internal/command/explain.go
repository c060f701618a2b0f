package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/explain"
)

func newExplain() *cobra.Command {
	var from reach
	var out output
	c := &cobra.Command{
		Use:   "explain RUN KEY",
		Short: "Tell in sentences what happened to an effect, and what to do",
		Long: `Tell in sentences what happened to an effect, in order and with times: who took it, what was sent, what came back, what
was found out and how. It ends with what that means and what to do. Times are on the ledger's clock.`,
		Example: `  pawl explain 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 mail:confirm-7`,
		Args:    exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			return from.with(c, func(s session) error {
				d, err := s.Intent(c.Context(), k, false)
				if err != nil {
					return fmt.Errorf("intent %s %s: %w", k.RunID, k.EffectKey, err)
				}
				account := explain.Of(d, around(c, s, d.Intent.Channel))
				return out.print(c, account, func(w io.Writer) {
					for _, line := range account.Lines() {
						row(w, line)
					}
				})
			})
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

// around is what is known besides the intent. What cannot be read is left out: the account stands without it.
func around(c *cobra.Command, s session, channel string) explain.Around {
	var known explain.Around
	if now, err := s.clock(c.Context()); err == nil {
		known.Now = now
	}
	if found, err := s.Channel(c.Context(), channel); err == nil {
		known.Channel = &found
	}
	if engines, err := s.Engines(c.Context()); err == nil {
		known.Engines = engines
	}
	return known
}
