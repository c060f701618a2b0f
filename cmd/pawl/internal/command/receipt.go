package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

func newReceipt() *cobra.Command {
	c := &cobra.Command{Use: "receipt", Short: "Verify, convert and export receipts, and make their keys"}
	c.AddCommand(newReceiptVerify(), newReceiptConvert(), newReceiptExport(), newReceiptKeygen())
	return c
}

func newReceiptExport() *cobra.Command {
	var from source
	var run, key, file string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write receipts as JSON Lines, one signed envelope to a line",
		Long: `Write receipts as JSON Lines, one signed envelope to a line: all of the ledger, in order of issue, or those of one intent.
Anybody can verify them with the public key: the file receipt.pub.pem in the engine's data directory.`,
		Example: `  pawl receipt export --out receipts.jsonl
  pawl receipt verify --key pawl-data/receipt.pub.pem receipts.jsonl`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if (run == "") != (key == "") {
				return usage("--run and --key name one intent together; give both or none")
			}
			only, err := runOf("--run", run)
			if err != nil {
				return err
			}
			return from.with(c.Context(), func(l ledger.Ledger, _ config.Config) error {
				return exportTo(c, l, ledger.Key{RunID: only, EffectKey: key}, file)
			})
		},
	}
	from.flags(c)
	c.Flags().StringVar(&run, "run", "", "with --key: only of this intent")
	c.Flags().StringVar(&key, "key", "", "with --run: only of this intent")
	c.Flags().StringVar(&file, "out", "", "file to write, which must not exist; default: standard output")
	return c
}

func exportTo(c *cobra.Command, l ledger.Ledger, k ledger.Key, file string) (err error) {
	var to io.Writer = c.OutOrStdout()
	if file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	w := receipt.NewWriter(to)
	if k != (ledger.Key{}) {
		return exportOne(c, l, k, w)
	}
	if err := l.AllReceipts(c.Context(), func(r ledger.StoredReceipt) error { return w.Write(r.Envelope) }); err != nil {
		return err
	}
	stats, err := l.Stats(c.Context())
	if err != nil {
		return err
	}
	return owed(stats.OwedReceipts)
}

// owed says that receipts are missing.
func owed(n int) error {
	if n == 0 {
		return nil
	}
	return no("receipts that are owed still: %d; a running engine issues them", n)
}

func exportOne(c *cobra.Command, l ledger.Ledger, k ledger.Key, w *receipt.Writer) error {
	receipts, err := l.ReceiptsOf(c.Context(), k)
	if err != nil {
		return err
	}
	if len(receipts) == 0 {
		if _, _, err := l.Intent(c.Context(), k); err != nil {
			return fmt.Errorf("intent %s: %w", k, err)
		}
		return no("intent %s has no receipt yet", k)
	}
	missing := 0
	for _, r := range receipts {
		if r.Owed {
			missing++
			continue
		}
		if err := w.Write(r.Envelope); err != nil {
			return err
		}
	}
	return owed(missing)
}

// keygenView is what receipt keygen prints with --json.
type keygenView struct {
	KeyID     string `json:"key_id"`
	Key       string `json:"key"`
	PublicKey string `json:"public_key"`
}

func newReceiptKeygen() *cobra.Command {
	var out output
	var file, public string
	c := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key that signs receipts, for engines that share one",
		Long: `Make a key that signs receipts. An engine makes one of its own at its first start; engines that share a ledger should share
a key: name its file as receipt_key in every pawl.yaml. An existing file is never replaced.`,
		Example: `  pawl receipt keygen --out receipt.key.pem --public receipt.pub.pem`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return usage("--out is missing: name the file of the private key")
			}
			if public == "" {
				public = file + ".pub"
			}
			for _, f := range []string{file, public} {
				if _, err := os.Lstat(f); !errors.Is(err, fs.ErrNotExist) {
					return usage("%s exists already, or cannot be looked at; name another file", f)
				}
			}
			key, err := receipt.LoadOrCreateKey(file)
			if err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			if err := receipt.WritePublicKey(public, key.Public()); err != nil {
				return fmt.Errorf("--public: %w", err)
			}
			return out.print(c, keygenView{key.ID(), file, public}, func(w io.Writer) {
				row(w, "key id", key.ID())
				row(w, "private key", file)
				row(w, "public key", public)
			})
		},
	}
	out.flags(c)
	c.Flags().StringVar(&file, "out", "", "file of the private key (mode 0600); required")
	c.Flags().StringVar(&public, "public", "", "file of the public key (default: the private key's name and .pub)")
	return c
}
