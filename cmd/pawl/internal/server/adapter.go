package server

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/sdk/host"
)

// longestData bounds a data directory that adapters' sockets fit under, in bytes: a socket's path may hold about 100.
const longestData = 60

// launch starts the channel's adapter and returns when it is ready.
func launch(ctx context.Context, c config.Config, name, executable string, logger *slog.Logger) (*host.Adapter, error) {
	wanted := c.Channels[name]
	o := host.Options{
		Name: name, Config: wanted.Config.Reveal(), Logger: logger, Dir: socketDir(c.Data),
		InheritEnv:     append(host.DefaultInheritEnv(), wanted.Adapter.Env...),
		QuarantineTime: wanted.Adapter.QuarantineTime,
	}
	if wanted.Adapter.Path != "" {
		path, err := filepath.Abs(wanted.Adapter.Path)
		if err != nil {
			return nil, &AdapterError{name, err}
		}
		o.Path, o.Args, o.SHA256, o.BeginProven = path, wanted.Adapter.Args, wanted.Adapter.SHA256, wanted.Adapter.BeginProven
	} else {
		if _, ok := FindBundled(wanted.Adapter.Name); !ok {
			return nil, unknownAdapter(name, wanted.Adapter.Name)
		}
		// The running image again. That a bundled adapter calls Begin before the wire is proven by this project's own tests.
		o.Path, o.Args, o.BeginProven = executable, []string{"adapter", "serve", wanted.Adapter.Name}, true
		to, err := tracing(c.Tracing)
		if err != nil {
			return nil, err
		}
		o.Env = observe.AdapterEnv(to)
	}
	a, err := host.Launch(ctx, o)
	if err != nil {
		return nil, &AdapterError{name, err}
	}
	return a, nil
}

func unknownAdapter(channel, name string) error {
	return &config.Error{Faults: []config.Fault{{
		Place: "channel " + channel, Key: "adapter", Problem: "names no bundled adapter; " + config.Suggest(name, BundledNames()),
	}}}
}

// socketDir is where adapters' sockets and pinned copies live: in the data directory, or, where its path is too long for a
// socket, where the host chooses.
func socketDir(data string) string {
	dir, err := filepath.Abs(filepath.Join(data, "run"))
	if err != nil || len(dir) > longestData {
		return ""
	}
	return dir
}
