package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/receipt"
)

// converting are the flags of receipt convert.
type converting struct {
	verifying
	to, signWith string
}

func newReceiptConvert() *cobra.Command {
	var v converting
	c := &cobra.Command{
		Use:   "convert [FILE]",
		Short: "Convert receipts that verify to receipt.v1 or proof-artifact.v1",
		Long: `Convert receipts that verify to a smaller form: one in a file, or one on each line, from a file or standard input; one to a
line on standard output. What does not verify is named on standard error and not converted, and the exit code is 1.

The results are unsigned, unless --sign-with names a private key: then each is in an envelope, under the name of its
receipt's issuer.`,
		Example: `  pawl receipt convert --to receipt.v1 --key receipt.pub.pem receipts.jsonl`,
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			return v.convert(c, name)
		},
	}
	c.Flags().StringVar(&v.to, "to", "", receipt.SchemaInterchange+" or "+receipt.SchemaProofArtifact+"; required")
	c.Flags().StringArrayVar(&v.keys, "key", nil, "file of a public key that is trusted; may be repeated")
	c.Flags().StringVar(&v.issuer, "issuer", "", "the only issuer that passes")
	c.Flags().BoolVar(&v.unsigned, "allow-unsigned", false, "let documents without a signature pass")
	c.Flags().StringVar(&v.signWith, "sign-with", "", "file of a private key that signs the results")
	return c
}

func (v converting) convert(c *cobra.Command, name string) error {
	conversions := map[string]func([]byte, receipt.VerifyOptions) ([]byte, error){
		receipt.SchemaInterchange: receipt.ToInterchange, receipt.SchemaProofArtifact: receipt.ToProofArtifact,
	}
	to, known := conversions[v.to]
	if !known {
		return usage("--to: %q is neither %s nor %s", v.to, receipt.SchemaInterchange, receipt.SchemaProofArtifact)
	}
	o, err := v.options(c)
	if err != nil {
		return err
	}
	var key *receipt.Key
	if v.signWith != "" {
		loaded, err := receipt.LoadKey(v.signWith)
		if err != nil {
			return usage("--sign-with: %v", err)
		}
		key = &loaded
	}
	in, done, err := input(c, name)
	if err != nil {
		return err
	}
	defer done()
	lines, err := documents(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	converted, refused := 0, 0
	out := receipt.NewWriter(c.OutOrStdout())
	for {
		doc, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			doc, err = convertOne(doc, to, o, key)
		} else if !errors.Is(err, receipt.ErrLineTooLong) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err != nil {
			refused++
			fmt.Fprintf(c.ErrOrStderr(), "line %d: %s\n", lines.Line(), plain(err.Error()))
			continue
		}
		if err := out.Write(doc); err != nil {
			return err
		}
		converted++
	}
	switch {
	case refused > 0:
		return no("not converted: %d of %d", refused, refused+converted)
	case converted == 0:
		return no("there is no receipt in the input")
	}
	return nil
}

// convertOne converts, and signs with the key if there is one.
func convertOne(doc []byte, to func([]byte, receipt.VerifyOptions) ([]byte, error), o receipt.VerifyOptions, key *receipt.Key) ([]byte, error) {
	converted, err := to(doc, o)
	if err != nil || key == nil {
		return converted, err
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: receipt.Verify(doc, o).Claims.Issuer, Key: *key})
	if err != nil {
		return nil, err
	}
	return issuer.Seal(converted)
}

// input opens the file, or standard input for "-".
func input(c *cobra.Command, name string) (in io.Reader, done func(), err error) {
	if name == "-" {
		return c.InOrStdin(), func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, usage("%v", err)
	}
	return f, func() { _ = f.Close() }, nil // read only
}

// documents reads one document to a line. One that was laid out by hand over several lines is taken as one.
func documents(in io.Reader) (*receipt.Reader, error) {
	head, err := io.ReadAll(io.LimitReader(in, receipt.MaxDocument+1))
	if err != nil {
		return nil, err
	}
	trimmed := bytes.TrimSpace(head)
	if len(head) <= receipt.MaxDocument && bytes.ContainsRune(trimmed, '\n') && json.Valid(trimmed) {
		var one bytes.Buffer
		if err := json.Compact(&one, trimmed); err != nil {
			return nil, err
		}
		return receipt.NewReader(&one), nil
	}
	return receipt.NewReader(io.MultiReader(bytes.NewReader(head), in)), nil
}
