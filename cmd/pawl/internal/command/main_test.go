package command

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/sdk"
)

// serveTestAdapter is the argument by which this test binary becomes the adapter of the test channel "maybe". A pinned program is
// started from a copy with another name, so its name cannot say it.
const serveTestAdapter = "serve-test-adapter"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveTestAdapter {
		os.Exit(sdk.Serve(maybeAdapter(), os.Args[2:]))
	}
	testscript.Main(withPostgres{m}, map[string]func(){
		"pawl": func() { os.Exit(Main(os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})) },
	})
}

// withPostgres runs the tests, and stops the Postgres that they may have started.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return pgtest.Main(w.m) }
