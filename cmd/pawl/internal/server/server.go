package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// Options say what to run.
type Options struct {
	Config  config.Config
	Version string
	Logger  *slog.Logger
	// Executable is started again for bundled adapters. Empty: the running one.
	Executable string
	// API offers the HTTP API, and health and metrics beside it. Without it those are offered if they have an address of their own.
	API bool
	// Strict is for a command that asks once: an adapter that cannot be started is an error of the start (otherwise its channel waits, and
	// the others run), and nothing is offered or measured.
	Strict bool
	// Load reads the configuration again, when SIGHUP asks for it. Nil: SIGHUP stops, like SIGTERM.
	Load func() (config.Config, error)
}

// Server is everything of one configuration, ready to run.
type Server struct {
	Engine *core.Engine
	Ledger ledger.Ledger

	logger     *slog.Logger
	executable string
	load       func() (config.Config, error)
	key        receipt.Key
	members    []*member
	box        *mailbox.Mailbox // nil: none
	api        *web             // nil: not offered
	metrics    *web             // nil: no address of its own
	cert       *certificate     // nil: no TLS
	visible    *observe.Observe // nil in a server that only asks
	instance   string

	stopping  context.Context // ends at the first signal
	beginStop context.CancelFunc
	retries   sync.WaitGroup
	endRetry  context.CancelFunc
	reloading sync.Mutex // one reload at a time

	mu     sync.Mutex
	config config.Config
}

// Start opens the ledger, takes the addresses, launches the adapters and makes the engine. Nothing is claimed or sent by it. After an
// error nothing is left open.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the running program: %w", err)
		}
	}
	if err := checkChannels(o.Config); err != nil {
		return nil, err
	}
	retrying, endRetry := context.WithCancel(context.WithoutCancel(ctx))
	stopping, beginStop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		logger: o.Logger, executable: o.Executable, load: o.Load, config: o.Config, stopping: stopping, beginStop: beginStop, endRetry: endRetry,
		instance: instance(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, warning := range o.Config.Warnings {
		o.Logger.Warn(warning)
	}
	var issuer *receipt.Issuer
	if s.key, issuer, err = engineIssuer(o.Config); err != nil {
		return nil, err
	}
	if s.Ledger, err = openForEngine(ctx, o.Config, issuer, o.Logger); err != nil {
		return nil, err
	}
	if err := s.takeAddresses(ctx, o); err != nil {
		return nil, err
	}
	if !o.Strict {
		if err := s.becomeVisible(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := s.openMailbox(o); err != nil {
		return nil, err
	}
	for _, name := range o.Config.Names() {
		s.members = append(s.members, &member{name: name})
	}
	if err := s.startAll(ctx, o.Strict); err != nil {
		return nil, err
	}
	if err := s.makeEngine(ctx, o); err != nil {
		return nil, err
	}
	if err := s.offer(o); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		if _, reason := m.now(); reason != nil {
			s.retries.Go(func() { s.retry(retrying, m) })
		}
	}
	return s, nil
}

// checkChannels refuses what no adapter needs to be started for.
func checkChannels(c config.Config) error {
	if len(c.Channels) == 0 {
		return &config.Error{Faults: []config.Fault{{Place: "configuration", Key: "channels", Problem: "there is none; name at least one channel and its adapter"}}}
	}
	for _, name := range c.Names() {
		if a := c.Channels[name].Adapter.Name; a != "" {
			if _, ok := FindBundled(a); !ok {
				return unknownAdapter(name, a)
			}
		}
	}
	return nil
}

// openMailbox starts the mailbox, if there is one. A command that only asks takes the one of a running engine, if that has it.
func (s *Server) openMailbox(o Options) (err error) {
	if !o.Config.Mailbox.On() {
		return nil
	}
	s.box, err = startMailbox(o.Config, o.Logger)
	if o.Strict && errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	return err
}

func (s *Server) makeEngine(ctx context.Context, o Options) (err error) {
	engine := o.Config.Engine.Options()
	engine.Ledger, engine.Version, engine.Logger, engine.Instance = s.Ledger, o.Version, o.Logger, s.instance
	if s.visible != nil {
		engine.Meter, engine.Tracer = s.visible.MeterProvider(), s.visible.TracerProvider()
	}
	for _, m := range s.members {
		if a, reason := m.now(); reason == nil {
			engine.Channels = append(engine.Channels, o.Config.Channels[m.name].Options(m.name, a, a.Sheet()))
		}
	}
	s.Engine, err = core.New(ctx, engine)
	return err
}

// Close ends the adapters and closes the ledger. The engine must not be running, unless the process is about to end.
func (s *Server) Close() error {
	s.beginStop()
	s.endRetry()
	s.retries.Wait()
	var faults []error
	for _, w := range s.webs() {
		faults = append(faults, w.close())
	}
	var closing sync.WaitGroup
	ended := make([]error, len(s.members))
	for i, m := range s.members {
		if a, _ := m.now(); a != nil {
			closing.Go(func() { ended[i] = a.Close(context.Background()) })
		}
	}
	closing.Wait()
	faults = append(faults, ended...)
	if s.box != nil {
		faults = append(faults, s.box.Close())
	}
	if s.visible != nil {
		flushing, cancel := context.WithTimeout(context.Background(), flushTimeout)
		if err := s.visible.Close(flushing); err != nil { // spans that the collector does not take are no fault of a stop
			s.logger.Warn(observe.EventTracing, "error", err)
		}
		cancel()
	}
	if s.Ledger != nil {
		faults = append(faults, s.Ledger.Close())
	}
	return errors.Join(faults...)
}
