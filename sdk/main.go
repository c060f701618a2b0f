package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// Exit codes of [Main].
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 2
)

// Main is the whole main function of an adapter: os.Exit(sdk.Main(adapter)). Without arguments it serves the engine
// that started the process; "describe" prints the capability sheet as JSON. It returns the exit code and MUST be
// called at most once in a process, before the program prints anything.
func Main(a Adapter) int { return Serve(a, os.Args[1:]) }

// Serve is [Main] with the arguments given by the caller, for a program that holds more than an adapter.
func Serve(a Adapter, args []string) int {
	if err := a.Validate(); err != nil {
		fmt.Fprintf(os.Stderr, "this adapter is declared wrongly:\n%v\n", err)
		return exitFault
	}
	switch {
	case len(args) == 0 && os.Getenv(wire.CookieKey) == wire.CookieValue:
		return serveProcess(a)
	case len(args) == 1 && args[0] == "describe":
		return describe(a, os.Stdout)
	case len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help"):
		usage(a, os.Stdout)
		return exitOK
	}
	usage(a, os.Stderr)
	return exitUsage
}

func usage(a Adapter, w io.Writer) {
	program := filepath.Base(os.Args[0])
	fmt.Fprintf(w, `%[1]s %[2]s is a Pawl adapter for effects of kind %[3]q. The Pawl engine starts it; by hand it can only
describe itself:

	%[1]s describe     print the capability sheet as JSON

To use it, name this file in pawl.yaml as the adapter of a channel. The configuration reaches it from there, never by
argument or environment.
`, program, a.Sheet.Version, a.Sheet.Kind)
}

// description is what the describe command prints.
type description struct {
	Sheet         Sheet           `json:"sheet"`
	SDKVersion    string          `json:"sdk_version"`
	Protocol      protocolVersion `json:"protocol"`
	ConfigSchema  json.RawMessage `json:"config_schema,omitempty"`
	ConfigExample json.RawMessage `json:"config_example,omitempty"`
}

type protocolVersion struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

func describe(a Adapter, w io.Writer) int {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(description{
		Sheet: a.Sheet, SDKVersion: Version, Protocol: protocolVersion{Major: ProtocolMajor, Minor: ProtocolMinor},
		ConfigSchema: a.ConfigSchema, ConfigExample: a.ConfigExample,
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "describe: %v\n", err)
		return exitFault
	}
	return exitOK
}
