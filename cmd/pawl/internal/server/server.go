package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/host"
)

// hardWait is how long a second signal waits for the engine to record what it knows.
const hardWait = 5 * time.Second

// ErrHardStop says that the engine was stopped while effects were under way. They are reconciled at the next start.
var ErrHardStop = errors.New("stopped at once; what was under way is reconciled at the next start")

// Options say what to run.
type Options struct {
	Config  config.Config
	Version string
	Logger  *slog.Logger
	// Executable is started again for bundled adapters. Empty: the running one.
	Executable string
}

// Server is everything of one configuration, ready to run.
type Server struct {
	Engine   *core.Engine
	Ledger   ledger.Ledger
	adapters []*host.Adapter
	logger   *slog.Logger
}

// Start opens the ledger, launches the adapters and makes the engine. Nothing is claimed or sent by it. After an error nothing
// is left open.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the running program: %w", err)
		}
	}
	if len(o.Config.Channels) == 0 {
		return nil, &config.Error{Faults: []config.Fault{{Place: "configuration", Key: "channels", Problem: "there is none; name at least one channel and its adapter"}}}
	}
	for _, name := range o.Config.Names() {
		if a := o.Config.Channels[name].Adapter.Name; a != "" {
			if _, ok := FindBundled(a); !ok {
				return nil, unknownAdapter(name, a)
			}
		}
	}
	s := &Server{logger: o.Logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, warning := range o.Config.Warnings {
		o.Logger.Warn(warning)
	}
	issuer, err := engineIssuer(o.Config)
	if err != nil {
		return nil, err
	}
	if s.Ledger, err = openForEngine(ctx, o.Config, issuer, o.Logger); err != nil {
		return nil, err
	}
	engine := o.Config.Engine.Options()
	engine.Ledger, engine.Version, engine.Logger = s.Ledger, o.Version, o.Logger
	for _, name := range o.Config.Names() {
		a, err := launch(ctx, o.Config, name, o.Executable, o.Logger)
		if err != nil {
			return nil, err
		}
		s.adapters = append(s.adapters, a)
		engine.Channels = append(engine.Channels, o.Config.Channels[name].Options(name, a, a.Sheet()))
	}
	s.Engine, err = core.New(ctx, engine)
	return s, err
}

// Run runs the engine until ctx ends or signals delivers: the first signal stops it in order, the second at once.
func (s *Server) Run(ctx context.Context, signals <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.Engine.Run(ctx) }()
	for stopping := false; ; stopping = true {
		select {
		case err := <-done:
			return err
		case got := <-signals:
			s.logger.Info("server.signal", "signal", got.String(), "again", stopping)
			if stopping {
				return s.stopNow(done)
			}
			stop()
		}
	}
}

// stopNow ends the adapters, which ends every call under way, and gives the engine a moment to write down what it knows.
func (s *Server) stopNow(done <-chan error) error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, a := range s.adapters {
		_ = a.Close(over) // reports that it did not wait, which is what was asked for
	}
	t := time.NewTimer(hardWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	return ErrHardStop
}

// Close ends the adapters and closes the ledger. The engine must not be running, unless the process is about to end.
func (s *Server) Close() error {
	var faults []error
	for _, a := range s.adapters {
		faults = append(faults, a.Close(context.Background()))
	}
	if s.Ledger != nil {
		faults = append(faults, s.Ledger.Close())
	}
	return errors.Join(faults...)
}
