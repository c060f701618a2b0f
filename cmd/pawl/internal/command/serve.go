package command

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
)

func newServe() *cobra.Command {
	var from source
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: HTTP API, dispatchers, reconcilers and adapters of one configuration",
		Long: `Run the service: what pawl engine runs, and the HTTP API in the same process. Any number of replicas may share one
Postgres. Without a pawl.yaml it runs the configuration that pawl init writes: an embedded ledger in ./pawl-data, a file
channel, and a mail channel whose mails go to a mailbox inside this process.

SIGTERM or SIGINT stops it in order: readiness says no, long polls end with what is known, nothing more is sent, what is
under way is finished, for up to stop_grace, and requests are answered for a moment longer. A second signal ends it at once.

SIGHUP reads the configuration again. Flags, rates, required approvals and concurrency of channels take effect where they
have changed in it, and certificates where their files have; whatever else has changed is named and needs a restart. A faulty
configuration changes nothing.`,
		Example: `  pawl serve
  pawl serve --config /etc/pawl/pawl.yaml`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			defer signal.Stop(signals)
			return runServe(c, from, signals)
		},
	}
	from.flags(c)
	return c
}

func runServe(c *cobra.Command, from source, signals <-chan os.Signal) error {
	cfg, bare, err := from.loadOrStarter()
	if err != nil {
		return err
	}
	s, err := server.Start(c.Context(), server.Options{
		Config: cfg, Version: version().Version, Logger: newLogger(c, cfg.Log), API: true,
		Load: func() (config.Config, error) { next, _, err := from.loadOrStarter(); return next, err },
	})
	if err != nil {
		return err
	}
	greet(c, s, cfg, bare)
	return run(c, s, signals)
}

// loadOrStarter is load, but without a file it is the configuration that init writes; bare says so.
func (s *source) loadOrStarter() (c config.Config, bare bool, err error) {
	if s.file == "" && os.Getenv(config.FileVariable) == "" {
		if _, err := os.Stat(config.DefaultFile); errors.Is(err, os.ErrNotExist) {
			c, err = config.LoadStarter(os.Environ())
			if err == nil {
				err = s.override(&c)
			}
			return c, true, err
		}
	}
	named := *s
	if named.file == "" && named.url != "" && os.Getenv(config.FileVariable) == "" {
		named.file = config.DefaultFile // a service needs channels, so that a ledger alone is not enough
	}
	c, err = named.load()
	return c, false, err
}

// override puts the ledger of the flag into the configuration.
func (s *source) override(c *config.Config) error {
	if s.url == "" {
		return nil
	}
	url := config.URL(s.url)
	if problem := url.Fault(); problem != "" {
		return usage("--ledger: %s", problem)
	}
	c.Ledger.URL = url
	return nil
}

// greet tells a person where the API is and how to begin. Programs read the log.
func greet(c *cobra.Command, s *server.Server, cfg config.Config, bare bool) {
	say := func(format string, args ...any) { fmt.Fprintf(c.ErrOrStderr(), "pawl: "+format+"\n", args...) }
	if bare {
		say("there is no %s here: running the configuration that `pawl init` writes, with its data in %s", config.DefaultFile, cfg.Data)
	}
	say("the API is at %s/v1, its documentation at %s/docs", s.URL(), s.URL())
	if !config.Loopback(cfg.API.Listen) {
		say("others can reach it, by every name and address of %s", cfg.API.Listen)
	}
	if url := s.MetricsURL(); url != "" {
		say("metrics and health are at %s/metrics, /healthz and /readyz", url)
	}
	if _, ok := cfg.Channels[demoChannel]; !ok || !cfg.Mailbox.On() {
		return
	}
	say("mail on %s goes nowhere: it is written to %s. Try:", demoChannel, s.MailboxPattern())
	fmt.Fprintf(c.ErrOrStderr(), `
  curl -s %s/v1/intents -H 'Content-Type: application/json' -d '{
    "run_id": "%s", "channel": "%s",
    "payload": {"to": "reader@example.test", "subject": "Hello", "text": "This mail is sent once."}}'

`, s.URL(), uuid.NewString(), demoChannel)
}

// demoChannel is the channel of the configuration to begin with that sends mail to nowhere.
const demoChannel = "mail/demo"
