package command

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says which program this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersion() *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			b := version()
			return out.print(c, b, func(w io.Writer) { row(w, "pawl "+b.Version, b.Revision, b.Go, b.Platform) })
		},
	}
	out.flags(c)
	return c
}
