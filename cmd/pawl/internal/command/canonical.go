package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/canonical"
)

// canonicalForm are the flags of canonical.
type canonicalForm struct{ digest, bare, lines bool }

func newCanonical() *cobra.Command {
	var f canonicalForm
	c := &cobra.Command{
		Use:   "canonical [FILE]",
		Short: "Print the canonical form of a JSON value, or its digest",
		Long: `Print the canonical form of one JSON value, from a file or standard input, or its digest. With --lines every line is a
value of its own, and has a line of its own in the answer. The form is named ` + canonical.Algorithm + `.`,
		Example: `  echo '{"b":1, "a":2}' | pawl canonical
  pawl canonical --digest payload.json
  pawl canonical --digest --lines < values.jsonl`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			if f.bare && !f.digest {
				return usage("--bare is for digests; add --digest")
			}
			if f.lines {
				return f.each(c, name)
			}
			raw, err := readInput(c, name)
			if err != nil {
				return err
			}
			form, err := f.of(nil, raw)
			if err != nil {
				return usage("%v", err)
			}
			_, err = c.OutOrStdout().Write(append(form, '\n'))
			return err
		},
	}
	c.Flags().BoolVar(&f.digest, "digest", false, "print the stamped digest instead")
	c.Flags().BoolVar(&f.bare, "bare", false, "with --digest: only the hexadecimal digits")
	c.Flags().BoolVar(&f.lines, "lines", false, "one value on each line")
	return c
}

func (f canonicalForm) of(dst, raw []byte) ([]byte, error) {
	if !f.digest {
		return canonical.AppendTransform(dst, raw)
	}
	d, err := canonical.Sum(raw)
	if err != nil {
		return dst, err
	}
	if f.bare {
		return append(dst, d.Hex()...), nil
	}
	return append(dst, d.Stamped()...), nil
}

// each reads values line by line, so that a file may be larger than memory.
func (f canonicalForm) each(c *cobra.Command, name string) (err error) {
	in := c.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usage("%v", err)
		}
		defer func() { _ = file.Close() }() // read only
		in = file
	}
	out := bufio.NewWriter(c.OutOrStdout())
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	reader := bufio.NewReader(in)
	var form []byte
	for n := 1; ; n++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		if len(line) > maxInput {
			return usage("line %d has more than %d bytes", n, maxInput)
		}
		if form, err = f.of(form[:0], bytes.TrimRight(line, "\r\n")); err != nil {
			return usage("line %d: %v", n, err)
		}
		if _, err := out.Write(append(form, '\n')); err != nil {
			return err
		}
	}
}
