// Command verify-receipt checks one receipt with a public key alone: no ledger, no network.
//
//	go run ./docs/examples/verify-receipt receipt.pub.pem < receipt.json
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/pawlworks/pawl/receipt"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: verify-receipt PUBLIC-KEY < RECEIPT")
		os.Exit(2)
	}
	if err := verify(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func verify(key string, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	line := bytes.TrimSuffix(text, []byte("\n")) // a receipt has one form, and the end of its line is not in it
	ring, err := receipt.LoadKeyRing(key)
	if err != nil {
		return err
	}
	verdict := receipt.Verify(line, receipt.VerifyOptions{Keys: ring})
	fmt.Fprintln(out, verdict)
	if !verdict.OK {
		return fmt.Errorf("rejected by the check of %s", verdict.Failed)
	}
	return nil
}
