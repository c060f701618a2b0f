package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/receipt"
)

// verifying are the flags of receipt verify.
type verifying struct {
	keys            []string
	issuer, subject string
	unsigned, json  bool
	maxAge          time.Duration
}

// verdictView is one line of receipt verify --json.
type verdictView struct {
	Line int `json:"line"`
	receipt.Verdict
}

func newReceiptVerify() *cobra.Command {
	var v verifying
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify receipts with nothing but a file and a public key",
		Long: `Verify receipts: one in a file, or one on each line, from a file or standard input. It needs no ledger and no network.
The exit code is 0 only if there is a receipt and every one is good. A verdict names what was not checked.

With --json every receipt has a line of its own: its line in the file, ok, failed, schema, claims and checks.`,
		Example: `  pawl receipt verify --key receipt.pub.pem receipts.jsonl`,
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			return v.verify(c, name)
		},
	}
	c.Flags().StringArrayVar(&v.keys, "key", nil, "file of a public key that is trusted; may be repeated")
	c.Flags().StringVar(&v.issuer, "issuer", "", "the only issuer that passes")
	c.Flags().StringVar(&v.subject, "subject", "", "value that the content hash must be of: JSON or a file")
	c.Flags().DurationVar(&v.maxAge, "max-age", 0, "reject what was issued longer ago")
	c.Flags().BoolVar(&v.unsigned, "allow-unsigned", false, "let documents without a signature pass")
	c.Flags().BoolVar(&v.json, "json", false, "print JSON with stable fields, one receipt to a line")
	return c
}

func (v verifying) options(c *cobra.Command) (receipt.VerifyOptions, error) {
	o := receipt.VerifyOptions{AllowUnsigned: v.unsigned, Issuer: v.issuer, MaxAge: v.maxAge}
	if len(v.keys) == 0 && !v.unsigned {
		return o, usage("--key is missing: name the issuer's public key file, or pass documents without a signature by --allow-unsigned")
	}
	if v.maxAge < 0 {
		return o, usage("--max-age: must be more than 0, is %s", v.maxAge)
	}
	if len(v.keys) > 0 {
		ring, err := receipt.LoadKeyRing(v.keys...)
		if err != nil {
			return o, usage("--key: %v", err)
		}
		o.Keys = ring
	}
	if v.subject != "" {
		subject, err := readValue(c, "subject", v.subject)
		if err != nil {
			return o, err
		}
		o.Subject = subject
	}
	return o, nil
}

func (v verifying) verify(c *cobra.Command, name string) error {
	o, err := v.options(c)
	if err != nil {
		return err
	}
	in := c.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return usage("%v", err)
		}
		defer func() { _ = f.Close() }() // read only
		in = f
	}
	// A document that was laid out by hand has several lines; a file of receipts has one on each.
	head, err := io.ReadAll(io.LimitReader(in, receipt.MaxDocument+1))
	if err != nil {
		return usage("read %s: %v", name, err)
	}
	tally := receipt.Tally{}
	if trimmed := bytes.TrimSpace(head); len(head) <= receipt.MaxDocument && bytes.ContainsRune(trimmed, '\n') && json.Valid(trimmed) {
		verdict := receipt.Verify(trimmed, o)
		if err := v.show(c, 1, verdict); err != nil {
			return err
		}
		tally = count(verdict)
	} else {
		tally, err = receipt.VerifyAll(io.MultiReader(bytes.NewReader(head), in), o, func(line int, verdict receipt.Verdict) error {
			return v.show(c, line, verdict)
		})
		if err != nil {
			return fmt.Errorf("verify %s: %w", name, err)
		}
	}
	return v.result(c, tally)
}

func count(v receipt.Verdict) receipt.Tally {
	if v.OK {
		return receipt.Tally{Verified: 1}
	}
	return receipt.Tally{Rejected: 1}
}

func (v verifying) show(c *cobra.Command, line int, verdict receipt.Verdict) error {
	if v.json {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetEscapeHTML(false)
		return e.Encode(verdictView{line, verdict})
	}
	subject := ""
	if verdict.OK {
		subject = "  " + strings.TrimSpace(verdict.Claims.Kind+" "+verdict.Claims.Subject)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "line %d: %s%s\n", line, plain(verdict.String()), plain(subject))
	return err
}

func (v verifying) result(c *cobra.Command, t receipt.Tally) error {
	if !v.json {
		fmt.Fprintf(c.OutOrStdout(), "%d verified, %d rejected\n", t.Verified, t.Rejected)
	}
	switch {
	case t.Rejected > 0:
		return silently(ExitNo)
	case t.Verified == 0:
		return no("there is no receipt in the input")
	}
	return nil
}
