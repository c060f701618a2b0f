package command

import (
	"context"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/ledger"
)

// source says where a command's configuration comes from.
type source struct {
	file string
	url  string
}

// flags adds --config and --ledger.
func (s *source) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "config", "", "configuration file (default $PAWL_CONFIG, else ./pawl.yaml if there is one)")
	c.Flags().StringVar(&s.url, "ledger", "", "ledger, instead of the configured one: sqlite:PATH or postgres://…")
}

// load reads the configuration. Without a file it is the default one: the embedded ledger in ./pawl-data.
func (s *source) load() (config.Config, error) {
	c, err := config.Load(s.chosen())
	var faults *config.Error
	switch missing, path := missingFile(err); {
	case missing:
		return c, usage("--config: there is no file %s", path)
	case err != nil && !asError(err, &faults):
		return c, usage("--config: %v", err)
	case err != nil:
		return c, err
	}
	return c, s.override(&c)
}

func missingFile(err error) (bool, string) {
	var path *fs.PathError
	if asError(err, &path) && path.Err != nil && os.IsNotExist(path) {
		return true, path.Path
	}
	return false, ""
}

// open opens the ledger for a command. The caller closes it.
func (s *source) open(ctx context.Context) (ledger.Ledger, config.Config, error) {
	c, err := s.load()
	if err != nil {
		return nil, c, err
	}
	l, err := server.OpenLedger(ctx, c)
	return l, c, err
}

// with opens the ledger, runs f and closes it.
func (s *source) with(ctx context.Context, f func(l ledger.Ledger, c config.Config) error) (err error) {
	l, c, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if closed := l.Close(); err == nil {
			err = closed
		}
	}()
	return f(l, c)
}

// newLogger logs to standard error as configured.
func newLogger(c *cobra.Command, l config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.SlogLevel()}
	var to slog.Handler = slog.NewTextHandler(c.ErrOrStderr(), options)
	if l.Format == "json" {
		to = slog.NewJSONHandler(c.ErrOrStderr(), options)
	}
	return slog.New(observe.LogHandler(to))
}
