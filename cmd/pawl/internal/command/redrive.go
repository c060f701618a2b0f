package command

import (
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newRedrive() *cobra.Command {
	var from reach
	var out output
	var r pawlclient.Redrive
	var approval string
	c := &cobra.Command{
		Use:   "redrive RUN KEY",
		Short: "Claim an abandoned effect again, under a new key that is linked to it",
		Long: `Claim an abandoned effect again. The new claim has the old key with a number behind it (#2), the same payload, and a link to
the old one, which stays as it ended. Doing it twice claims it once.

Where nobody knows whether the old one took effect, a second one may be a duplicate. That is refused without the words
--accept-duplicates "` + ledger.DuplicatesAcceptable + `".`,
		Example: `  pawl redrive 0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77 mail:confirm-7 --by "Ada Lovelace" --reason "the mailbox exists now"`,
		Args:    exactly("RUN", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case r.By == "":
				return usage("--by is missing: say who wants it again")
			case r.Reason == "":
				return usage("--reason is missing: say why")
			case r.AcceptDuplicates != "" && r.AcceptDuplicates != ledger.DuplicatesAcceptable:
				return usage("--accept-duplicates: say %q, word by word", ledger.DuplicatesAcceptable)
			}
			k, err := keyOf(args)
			if err != nil {
				return err
			}
			if approval != "" {
				if r.Approval, err = readApproval(c, approval); err != nil {
					return err
				}
			}
			return from.with(c, func(s session) error {
				result, err := s.Redrive(c.Context(), k, r)
				if err != nil {
					return err // names the effect already
				}
				return printClaim(c, out, result)
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&r.By, "by", "", "who wants it again; required")
	c.Flags().StringVar(&r.Reason, "reason", "", "why; required")
	c.Flags().StringVar(&r.AcceptDuplicates, "accept-duplicates", "", "the words \""+ledger.DuplicatesAcceptable+"\"")
	c.Flags().StringVar(&approval, "approval", "", "file with an approval of the new key (JSON), or - for standard input")
	return c
}
