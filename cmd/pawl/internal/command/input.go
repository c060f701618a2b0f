package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// maxInput bounds a value that is read whole, in bytes.
const maxInput = 64 << 20

// readInput reads a file, or standard input for "-" and for no name.
func readInput(c *cobra.Command, name string) ([]byte, error) {
	in := c.InOrStdin()
	if name != "" && name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("%v", err)
		}
		defer func() { _ = f.Close() }() // read only
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, usage("read %s: %v", orDash(name), err)
	}
	if len(raw) > maxInput {
		return nil, usage("%s has more than %d bytes", orDash(name), maxInput)
	}
	return raw, nil
}

// readValue reads a flag that may be JSON itself, a file, or "-" for standard input. What begins like a JSON object, array or text
// is JSON.
func readValue(c *cobra.Command, flag, value string) ([]byte, error) {
	if value == "" {
		return nil, usage("--%s is missing: give JSON, a file, or - for standard input", flag)
	}
	if text := strings.TrimSpace(value); text != "" && strings.ContainsRune(`{["`, rune(text[0])) {
		return []byte(value), nil
	}
	if _, err := os.Stat(value); err != nil && value != "-" {
		if json.Valid([]byte(value)) { // a number, true, false, null
			return []byte(value), nil
		}
		return nil, usage("--%s: %q is neither JSON nor a file", flag, cut(value))
	}
	raw, err := readInput(c, value)
	return bytes.TrimRight(raw, "\r\n"), err
}

// readApproval reads an approval that was taken elsewhere.
func readApproval(c *cobra.Command, file string) (*pawlclient.Approval, error) {
	raw, err := readInput(c, file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var a pawlclient.Approval
	if err := d.Decode(&a); err != nil {
		return nil, usage("--approval: %s is no approval: %v; it has the fields by, reference, until, digest and count", file, err)
	}
	return &a, nil
}

func cut(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s…", strings.ToValidUTF8(s[:most], ""))
}
