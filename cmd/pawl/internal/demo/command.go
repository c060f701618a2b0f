package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// ErrPromise says that a demo ran to its end and found a duplicate, a loss or a receipt that does not verify.
var ErrPromise = errors.New("the promise did not hold")

// Command is "pawl demo".
func Command() *cobra.Command {
	o := Options{Count: 200, Kills: 12, Channel: "mail", User: "pawl", To: "example.test", Timeout: 10 * time.Minute}
	seed := int64(-1)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Claim mails, kill everything at random, and count what arrived",
		Long: `Claims mails into a ledger, sends them through the SMTP adapter to a mailbox inside the demo, and kills engine, adapter
and connections at random moments, also between the server's acceptance and its reply. Then it holds the mailbox's own count against
the ledger's, and verifies every receipt.

Exit code 0: nothing twice, nothing lost. 1: otherwise.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = uint64(seed)
			if seed < 0 {
				o.Seed = rand.Uint64N(1 << 31)
			}
			if o.Password == "" {
				o.Password = os.Getenv("PAWL_DEMO_IMAP_PASSWORD")
			}
			r, err := Run(cmd.Context(), o, cmd.ErrOrStderr())
			if r.Claimed > 0 {
				if printErr := r.Print(cmd.OutOrStdout(), o.JSON); printErr != nil {
					return printErr
				}
			}
			if err != nil {
				return err
			}
			if !r.Good() {
				return fmt.Errorf("%w: duplicates %d, lost %d, receipts verified %d of %d; files in %s",
					ErrPromise, r.Duplicates, r.Lost, r.ReceiptsVerified, r.Committed, r.Directory)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Count, "n", o.Count, "effects to claim")
	f.IntVar(&o.Kills, "kills", o.Kills, "kills to make on the way")
	f.Int64Var(&seed, "seed", seed, "seed of the schedule of kills; negative: a random one, which is printed")
	f.StringVar(&o.Channel, "channel", o.Channel, "mail or file")
	f.StringVar(&o.Ledger, "ledger", o.Ledger, "ledger to use: postgres://… (default: SQLite in the demo's own directory)")
	f.StringVar(&o.SMTP, "smtp", o.SMTP, "host:port of another mail server, without TLS")
	f.StringVar(&o.IMAP, "imap", o.IMAP, "host:port of its IMAP server, without TLS")
	f.StringVar(&o.User, "imap-user", o.User, "user of the IMAP server, a name or a whole address: the recipient of all mails there; the password is PAWL_DEMO_IMAP_PASSWORD")
	f.StringVar(&o.To, "to", o.To, "domain of --imap-user at another mail server, if that is only a name")
	f.BoolVar(&o.NoProbe, "no-probe", o.NoProbe, "the engine may not ask the outside world what became of an effect")
	f.BoolVar(&o.Serve, "serve", o.Serve, "run it as a service: claim over HTTP with retries, and hold the scraped counters against the table")
	f.BoolVar(&o.JSON, "json", o.JSON, "end with one line of JSON")
	f.BoolVar(&o.Keep, "keep", o.Keep, "keep the demo's directory")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "give up after this long")
	return cmd
}
