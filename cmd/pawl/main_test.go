package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlworks/pawl/cmd/pawl/internal/command"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

// TestMain runs the tests, unless the test binary was started under the name pawl: then it is the command itself, and what
// it starts again is it, too.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pawl" {
		os.Exit(command.Main(os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	if len(os.Args) > 1 && os.Args[1] == frailAdapter {
		os.Exit(serveFrail(os.Args[2:]))
	}
	os.Exit(pgtest.Main(m))
}
