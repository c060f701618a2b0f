package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk"
)

func newAdapter() *cobra.Command {
	c := &cobra.Command{Use: "adapter", Short: "Look at adapters"}
	c.AddCommand(newAdapterList(), newAdapterDescribe(), newAdapterServe())
	return c
}

// adapterView is a bundled adapter as JSON. The fields are stable.
type adapterView struct {
	Name  string        `json:"name"`
	Sheet channel.Sheet `json:"sheet"`
}

func newAdapterList() *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List the bundled adapters and what they claim",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			views := []adapterView{}
			for _, b := range server.AllBundled() {
				views = append(views, adapterView{b.Name, b.Adapter.Sheet})
			}
			return out.print(c, views, func(w io.Writer) {
				row(w, "ADAPTER", "KIND", "VERSION", "TOKEN", "REPLAY", "PROBE", "PROVES ABSENCE", "SETTLE TIME")
				for _, v := range views {
					s := v.Sheet
					row(w, v.Name, s.Kind, s.Version, string(s.Token), string(s.Replay), string(s.Probe), yes(s.NegativeProof), s.SettleTime.String())
				}
			})
		},
	}
	out.flags(c)
	return c
}

const (
	describeTimeout = 10 * time.Second
	maxDescription  = 4 << 20 // bytes
)

func newAdapterDescribe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME|PATH",
		Short: "Print an adapter's capability sheet and configuration as JSON",
		Long: `Print an adapter's capability sheet and an example of its configuration as JSON. NAME is a bundled adapter; anything with
a slash is the path of a program, which is started with the argument describe, without environment or configuration.`,
		Example: `  pawl adapter describe smtp
  pawl adapter describe ./my-adapter`,
		Args: exactly("NAME|PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.ContainsRune(args[0], filepath.Separator) {
				return describeProgram(c, args[0])
			}
			b, ok := server.FindBundled(args[0])
			if !ok {
				return usage("%q is not a bundled adapter; %s, or give the path of a program", args[0], suggest(args[0], server.BundledNames()))
			}
			return describeBundled(c, b)
		},
	}
}

// described has the form that sdk.Main prints for the argument describe.
type described struct {
	Sheet         channel.Sheet   `json:"sheet"`
	SDKVersion    string          `json:"sdk_version"`
	Protocol      protocol        `json:"protocol"`
	ConfigSchema  json.RawMessage `json:"config_schema,omitempty"`
	ConfigExample json.RawMessage `json:"config_example,omitempty"`
}

type protocol struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

func describeBundled(c *cobra.Command, b server.Bundled) error {
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(described{
		b.Adapter.Sheet, sdk.Version, protocol{sdk.ProtocolMajor, sdk.ProtocolMinor}, b.Adapter.ConfigSchema, b.Adapter.ConfigExample,
	})
}

// describeProgram asks a program that may be anything: its time, its answer and its environment are bounded.
func describeProgram(c *cobra.Command, path string) error {
	ctx, cancel := context.WithTimeout(c.Context(), describeTimeout)
	defer cancel()
	program := exec.CommandContext(ctx, path, "describe")
	program.Env = []string{}
	program.WaitDelay = time.Second
	var answer bytes.Buffer
	program.Stdout = &bounded{&answer, maxDescription}
	if err := program.Run(); err != nil {
		return &exitError{ExitAdapter, fmt.Errorf("adapter %s does not describe itself: %w", path, err)}
	}
	var d described
	if err := json.Unmarshal(answer.Bytes(), &d); err != nil || d.Sheet.Kind == "" {
		return &exitError{ExitAdapter, fmt.Errorf("adapter %s answers describe with something else than its sheet; is it a Pawl adapter?", path)}
	}
	_, err := c.OutOrStdout().Write(answer.Bytes())
	return err
}

// bounded refuses more than left bytes.
type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, fmt.Errorf("more than %d bytes", maxDescription)
	}
	b.left -= len(p)
	return b.to.Write(p)
}

// adapterCookie is the variable by which an engine says that it started an adapter.
const adapterCookie = "PAWL_ADAPTER_COOKIE"

func newAdapterServe() *cobra.Command {
	return &cobra.Command{
		Use:   "serve NAME",
		Short: "Serve a bundled adapter to the engine that started this process",
		Long: `Serve a bundled adapter to the engine that started this process. The engine runs it; by hand it only says that no engine
is there.`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			b, ok := server.FindBundled(args[0])
			if !ok {
				return usage("%q is not a bundled adapter; %s", args[0], suggest(args[0], server.BundledNames()))
			}
			if os.Getenv(adapterCookie) == "" {
				return usage("no engine started this process: name the adapter in pawl.yaml and run pawl engine, or look at it with pawl adapter describe %s", b.Name)
			}
			end, err := observe.StartAdapter(c.Context(), "pawl-adapter-"+b.Name, version().Version)
			if err != nil { // it does its work without traces
				fmt.Fprintln(c.ErrOrStderr(), err)
			}
			defer end()
			return silently(sdk.Serve(b.Adapter, nil))
		},
	}
}
