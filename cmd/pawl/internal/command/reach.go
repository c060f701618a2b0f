package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/api"
	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Variables that say which service commands ask where no flag does.
const (
	apiURLVariable   = "PAWL_API_URL"
	apiTokenVariable = "PAWL_API_TOKEN"
)

// reach says where a command does its work: on a ledger, or through the API of a running service.
type reach struct {
	source
	api, tokenFile string
}

// flags adds --config, --ledger, --api and --token-file.
func (r *reach) flags(c *cobra.Command) {
	r.source.flags(c)
	c.Flags().StringVar(&r.api, "api", "", "URL of a running pawl serve, instead of a ledger (default $"+apiURLVariable+")")
	c.Flags().StringVar(&r.tokenFile, "token-file", "", "file with the API token (default: the token in $"+apiTokenVariable+")")
}

// session is what a command works with.
type session struct {
	pawlclient.API
	where  string        // for a person
	remote bool          // through the API
	config config.Config // of a ledger; empty if remote
	clock  func(ctx context.Context) (time.Time, error)
}

// service is the API's URL, empty for a ledger. What the command line names comes before the environment.
func (r *reach) service() (string, error) {
	switch {
	case r.api != "" && r.url != "":
		return "", usage("--api and --ledger exclude each other; keep one")
	case r.api != "":
		return r.api, nil
	case r.url != "" || r.file != "":
		if r.tokenFile != "" {
			return "", usage("--token-file is for --api; a ledger takes no token")
		}
		return "", nil
	}
	if url := os.Getenv(apiURLVariable); url != "" {
		return url, nil
	}
	if r.tokenFile != "" {
		return "", usage("--token-file is for --api; name the service")
	}
	return "", nil
}

// with opens the ledger or the client, runs f, and closes.
func (r *reach) with(c *cobra.Command, f func(s session) error) (err error) {
	url, err := r.service()
	if err != nil {
		return err
	}
	if url != "" {
		client, err := r.client(url)
		if err != nil {
			return err
		}
		return f(session{API: client, where: url, remote: true, clock: func(context.Context) (time.Time, error) { return time.Now(), nil }})
	}
	l, cfg, err := r.open(c.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s, err := api.NewService(api.ServiceOptions{
		Ledger: l, Actor: api.Actor{Name: login()}, ClockAllowance: cfg.Engine.ClockAllowance, Issuer: cfg.Issuer, Logger: newLogger(c, cfg.Log),
	})
	if err != nil {
		return err
	}
	return f(session{API: s, where: cfg.Ledger.URL.String(), config: cfg, clock: l.Now})
}

func (r *reach) client(url string) (*pawlclient.Client, error) {
	o := pawlclient.Options{URL: url, UserAgent: "pawl/" + version().Version, TokenFile: r.tokenFile}
	if r.tokenFile == "" {
		o.Token = os.Getenv(apiTokenVariable)
	}
	client, err := pawlclient.New(o)
	if err != nil {
		return nil, usage("--api: %v", err)
	}
	return client, nil
}

// login is who is at this command line.
func login() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}
