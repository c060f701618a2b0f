package command

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
)

func newEngine() *cobra.Command {
	var from source
	c := &cobra.Command{
		Use:   "engine",
		Short: "Run the engine: dispatchers, reconcilers and adapters of one configuration",
		Long: `Run the engine: it sends what is claimed into the ledger, finds out what became of everything that is in doubt, and
issues receipts. Any number of engines may run on one ledger.

An embedded ledger (sqlite:) is made and migrated at the start. A Postgres ledger is migrated by: pawl migrate up

SIGTERM or SIGINT stops it in order: nothing more is taken, and what is under way is finished, for up to stop_grace. A
second signal ends the adapters at once. However it ends, also by a kill, the ledger holds what may have been sent, and the
next engine finds out what became of it.`,
		Example: `  pawl engine --config pawl.yaml`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
			defer signal.Stop(signals)
			return runEngine(c, from, signals)
		},
	}
	from.flags(c)
	return c
}

func runEngine(c *cobra.Command, from source, signals <-chan os.Signal) error {
	cfg, err := from.load()
	if err != nil {
		return err
	}
	s, err := server.Start(c.Context(), server.Options{Config: cfg, Version: version().Version, Logger: newLogger(c, cfg.Log)})
	if err != nil {
		return err
	}
	return run(c, s, signals)
}

// run runs a server until it is stopped, and closes it.
func run(c *cobra.Command, s *server.Server, signals <-chan os.Signal) error {
	if err := s.Run(c.Context(), signals); errors.Is(err, server.ErrHardStop) {
		return err // the process ends now: closing would wait for what was given up
	} else if err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Close()
}

func newReconcile() *cobra.Command {
	var from source
	var out output
	var once bool
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Find out, once, what became of every intent whose look is due",
		Long: `Find out, once, what became of every intent whose look is due, and mend the dispatch queue. It starts the configured
adapters to ask, and sends nothing. A running engine does the same all the time.`,
		Example: `  pawl reconcile --once --config pawl.yaml`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			if !once {
				return usage("--once is missing: to reconcile all the time, run: pawl engine")
			}
			return reconcileOnce(c, from, out)
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().BoolVar(&once, "once", false, "look once and end")
	return c
}
