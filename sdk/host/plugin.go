package host

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
)

// remotePlugin is the adapter as go-plugin sees it. It is never dispensed: the connection is all that is wanted.
type remotePlugin struct{ plugin.NetRPCUnsupportedPlugin }

var _ plugin.GRPCPlugin = remotePlugin{}

func (remotePlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the engine's side")
}

func (remotePlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("use the connection")
}

// runner adds go-plugin's variables to the environment of the process. The socket directory stays ours: its path is
// shorter.
func (g *generation) runner(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
	theirs := slices.DeleteFunc(slices.Clone(spec.Env), func(variable string) bool {
		return strings.HasPrefix(variable, plugin.EnvUnixSocketDir+"=")
	})
	g.process.command.Env = append(g.process.command.Env, theirs...)
	return g.process, nil
}

// explain gives an error the form for a person and says whether another try can help.
func explain(err error) *LaunchError {
	failure := &LaunchError{Err: err}
	switch {
	case errors.Is(err, ErrWrongChecksum):
		failure.Permanent = true
		failure.Hint = "if the new program is wanted, change the pin; else put the old one back"
	case errors.Is(err, ErrScriptPinned):
		failure.Permanent = true
		failure.Hint = "pack script and interpreter into one program, or run it without a pin"
	case errors.Is(err, ErrProtocol):
		failure.Permanent = true
		failure.Hint = "build the adapter with an SDK that speaks the engine's version, or upgrade the engine"
	}
	return failure
}
