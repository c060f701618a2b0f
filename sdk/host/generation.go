package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/client"
	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// dyingWait is how long a send that lost its connection waits to see whether the process is dead, so that its Begin
// records can be counted.
const dyingWait = 3 * time.Second

// generation is one life of an adapter process.
type generation struct {
	channel.Channel
	number      int64
	binary      binary
	description client.Description
	conn        *client.Conn
	process     *process
	plugin      *plugin.Client
	end         func() // go-plugin's own clean-up, once
	dir         *launchDir
	logger      *slog.Logger
	proven      bool        // the report proves Begin
	lied        atomic.Bool // it made an effect without Begin
	done        chan struct{}
}

// launcher starts generations.
type launcher struct {
	options Options
	base    string
	redact  func(string) string
}

// launch starts the program and brings it to the point where it can take calls. Whatever fails, nothing is left behind.
// phase is told how far it came.
func (l *launcher) launch(ctx context.Context, number int64, phase func(State)) (life, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.StartTimeout)
	defer cancel()
	at := Starting
	reached := func(s State) { at = s; phase(s) }
	reached(Starting)
	g, err := l.start(ctx, number)
	if err == nil {
		err = g.introduce(ctx, l.options, reached)
	}
	if err == nil {
		return g, nil
	}
	failure := explain(err)
	failure.Name, failure.Phase = l.options.Name, at
	if g != nil {
		g.process.kill()
		<-g.done
		failure.Output = g.process.output.last()
	}
	return nil, failure
}

// start starts the process and dials it. A generation that is returned beside an error must still be ended.
func (l *launcher) start(ctx context.Context, number int64) (*generation, error) {
	program, err := prepareBinary(l.options.Path, l.options.SHA256, l.base)
	if err != nil {
		return nil, err
	}
	dir, err := newLaunchDir(l.base)
	if err != nil {
		return nil, err
	}
	logger := l.options.Logger.With("adapter", l.options.Name, "generation", number)
	g := &generation{
		number: number, binary: program, dir: dir, logger: logger, proven: l.options.BeginProven, done: make(chan struct{}),
	}
	g.process = newProcess(program.path, l.options.Args, l.environment(dir), dir.work(), newOutputLog(logger, l.redact))
	g.plugin = plugin.NewClient(g.clientConfig(ctx, l.options))
	g.end = sync.OnceFunc(g.plugin.Kill)

	// go-plugin knows no context. When ours ends, the process is killed, and go-plugin notices that.
	stop := context.AfterFunc(ctx, g.process.kill)
	protocol, err := g.plugin.Client()
	stop()
	g.process.abandon()
	go g.clean()
	if err != nil {
		return g, g.whyNoConnection(ctx, err)
	}
	g.conn = client.New(protocol.(*plugin.GRPCClient).Conn, client.Options{
		CallTimeout: l.options.CallTimeout, Begins: g, Redact: l.redact,
	})
	g.Channel = g.conn
	return g, nil
}

// whyNoConnection replaces go-plugin's error where more is known.
func (g *generation) whyNoConnection(ctx context.Context, err error) error {
	offered := g.process.filter.version.Load()
	g.process.kill()
	<-g.process.settled
	switch {
	case offered != 0 && offered != wire.ProtocolMajor:
		return fmt.Errorf("%w: the adapter offers version %d, this engine speaks %d", ErrProtocol, offered, wire.ProtocolMajor)
	case ctx.Err() != nil:
		return fmt.Errorf("no handshake in time: %w", ctx.Err())
	case offered == 0 && g.process.ID() != "":
		return fmt.Errorf("the process ended without a handshake on standard output: %s", g.process.ending())
	}
	return err
}

func (g *generation) clientConfig(ctx context.Context, o Options) *plugin.ClientConfig {
	left := o.StartTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline) + time.Minute // ours ends first, and kills
	}
	return &plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolMajor: {wire.PluginName: remotePlugin{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     left,
		GRPCDialOptions:  client.DialOptions(),
		Logger:           hclog.NewNullLogger(), // what matters is logged here, with the adapter's name
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: g.dir.path},
		RunnerFunc:       g.runner,
	}
}

// introduce asks for the sheet and hands over the configuration.
func (g *generation) introduce(ctx context.Context, o Options, reached func(State)) error {
	stop := context.AfterFunc(ctx, g.process.kill)
	defer stop()
	reached(Describing)
	description, err := g.conn.Describe(ctx)
	if err != nil {
		return err
	}
	description.Sheet = description.Sheet.Normal()
	if description.Sheet.Kind == "" {
		return fmt.Errorf("the adapter's sheet names no kind")
	}
	g.description = description
	reached(Configuring)
	configured, err := g.conn.Configure(ctx, o.Name, o.Config)
	if err != nil || configured == nil {
		return err
	}
	sheet := configured.Normal()
	if err := notMore(g.description.Sheet, sheet); err != nil {
		return fmt.Errorf("the adapter claims more with its configuration than without: %w", err)
	}
	g.description.Sheet = sheet
	return nil
}

// environment is what the adapter sees, besides what go-plugin adds for the handshake.
func (l *launcher) environment(dir *launchDir) []string {
	env := []string{plugin.EnvUnixSocketDir + "=" + dir.sockets(), "TMPDIR=" + dir.work()}
	for _, name := range l.options.InheritEnv {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range l.options.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// clean waits for the end of the process and removes every trace of it.
func (g *generation) clean() {
	defer close(g.done)
	<-g.process.settled
	g.end()
	if err := g.dir.remove(); err != nil {
		g.logger.Warn("launch directory of an adapter was not removed", "error", err)
	}
}

func (g *generation) sheet() channel.Sheet      { return g.description.Sheet }
func (g *generation) ended() <-chan struct{}    { return g.done }
func (g *generation) kill()                     { g.process.kill() }
func (g *generation) identity() (int64, string) { return g.number, g.binary.sha256 }

func (g *generation) health(ctx context.Context) (bool, error) { return g.conn.Health(ctx) }

// ending says why the process is gone; it is read after ended.
func (g *generation) ending() error {
	return &LaunchError{Phase: Ready, Err: fmt.Errorf("the process ended: %s", g.process.ending()), Output: g.process.output.last()}
}

// stop ends the process in order: its sends first, then go-plugin's shutdown, and its group when ctx is over.
func (g *generation) stop(ctx context.Context) {
	stopKill := context.AfterFunc(ctx, g.process.kill)
	defer stopKill()
	if left, err := g.conn.Drain(ctx); err != nil || left > 0 {
		g.logger.Warn("adapter did not drain", "sends", left, "error", err)
	}
	g.end()
	g.process.kill()
	<-g.done
}

// Expect announces a call to the Begin log.
func (g *generation) Expect(id string) func() { return g.process.begins.expect(id) }

// Contradicted notes that the adapter made an effect without Begin. From then on a missing record proves nothing.
func (g *generation) Contradicted() {
	if g.sheet().Begin && !g.lied.Swap(true) {
		g.logger.Error("adapter made an effect without Begin, which its sheet declares; missing Begin records prove nothing any more")
	}
}

// NeverBegan waits, if the connection was lost, a moment for the process to be found dead.
func (g *generation) NeverBegan(id string, connectionLost bool) bool {
	if !g.proven || !g.sheet().Begin {
		return false
	}
	if connectionLost {
		timer := time.NewTimer(dyingWait)
		defer timer.Stop()
		select {
		case <-g.process.settled:
		case <-timer.C:
		}
	}
	return !g.lied.Load() && g.process.neverBegan(id)
}
