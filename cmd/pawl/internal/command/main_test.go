package command

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlworks/pawl/sdk"
)

// serveTestAdapter is the argument by which this test binary becomes the adapter of the test channel "maybe". A pinned program is
// started from a copy with another name, so its name cannot say it.
const serveTestAdapter = "serve-test-adapter"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveTestAdapter {
		os.Exit(sdk.Serve(maybeAdapter(), os.Args[2:]))
	}
	testscript.Main(m, map[string]func(){
		"pawl": func() { os.Exit(Main(os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})) },
	})
}
