package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func newTokens() *cobra.Command {
	c := &cobra.Command{
		Use:   "tokens",
		Short: "Make, list and revoke the tokens of the HTTP API",
		Long: `Make, list and revoke the tokens of the HTTP API. Only a digest is stored: the secret is printed once, when it is made.

  claim    claim effects; runs and leases
  read     read everything but payloads, tokens and the audit trail
  operate  cancel, resolve, redrive, pause, flag; read payloads
  admin    all of these; tokens, audit, epoch, prune`,
	}
	c.AddCommand(newTokensCreate(), newTokensList(), newTokensRevoke())
	return c
}

func newTokensCreate() *cobra.Command {
	var from reach
	var out output
	var n pawlclient.NewAPIToken
	var expires inDays
	var quiet bool
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print its secret, once",
		Example: `  pawl tokens create shop --scope claim,read --expires 90d
  pawl tokens create shop --scope claim --quiet > /run/secrets/pawl-token`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(n.Scopes) == 0:
				return usage("--scope is missing: name claim, read, operate or admin, with commas between")
			case expires < 0:
				return usage("--expires: must be more than 0, is %s", time.Duration(expires))
			case quiet && out.json:
				return usage("--quiet and --json exclude each other; keep one")
			}
			n.Name = args[0]
			if n.By == "" {
				n.By = login()
			}
			return from.with(c, func(s session) error {
				if expires > 0 {
					now, err := s.clock(c.Context())
					if err != nil {
						return err
					}
					n.ExpiresAt = now.Add(time.Duration(expires))
				}
				t, err := s.CreateAPIToken(c.Context(), n)
				if err != nil {
					return fmt.Errorf("make a token: %w", err)
				}
				return printToken(c, out, t, quiet)
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringSliceVar(&n.Scopes, "scope", nil, "what it may do: claim, read, operate, admin, with commas between; required")
	c.Flags().Var(&expires, "expires", "ends after this time, such as 90d; without it, never")
	c.Flags().StringVar(&n.By, "by", "", "who makes it (default: your login name)")
	c.Flags().BoolVar(&quiet, "quiet", false, "print the secret and nothing else, for scripts")
	return c
}

// printToken prints the secret on standard output. What goes with it goes to standard error, so that a pipe gets the secret alone.
func printToken(c *cobra.Command, out output, t pawlclient.IssuedAPIToken, quiet bool) error {
	if quiet {
		_, err := fmt.Fprintln(c.OutOrStdout(), t.Secret)
		return err
	}
	return out.print(c, t, func(w io.Writer) {
		row(w, "token", t.Secret)
		row(w, "id", t.ID)
		row(w, "name", t.Name)
		row(w, "scopes", strings.Join(t.Scopes, ","))
		optional(w, "expires", stamp(t.ExpiresAt))
		row(w, "This is the only time that the token is shown.")
	})
}

func newTokensList() *cobra.Command {
	var from reach
	var out output
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			return from.with(c, func(s session) error {
				tokens, err := s.APITokens(c.Context())
				if err != nil {
					return err
				}
				now, err := s.clock(c.Context())
				if err != nil {
					return err
				}
				return out.print(c, append([]pawlclient.APIToken{}, tokens...), func(w io.Writer) {
					row(w, "ID", "NAME", "SCOPES", "MADE", "BY", "STATE")
					for _, t := range tokens {
						row(w, t.ID, t.Name, strings.Join(t.Scopes, ","), stamp(t.CreatedAt), t.CreatedBy, tokenState(t, now))
					}
				})
			})
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

func tokenState(t pawlclient.APIToken, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked by " + t.RevokedBy
	case t.ExpiresAt.IsZero():
		return "good"
	case t.ExpiresAt.After(now):
		return "good until " + stamp(t.ExpiresAt)
	}
	return "expired"
}

func newTokensRevoke() *cobra.Command {
	var from reach
	var out output
	var by string
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a token",
		Args:  exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if by == "" {
				by = login()
			}
			return from.with(c, func(s session) error {
				t, err := s.RevokeAPIToken(c.Context(), args[0], by)
				if err != nil {
					return fmt.Errorf("revoke token: %w", err)
				}
				return out.print(c, t, func(w io.Writer) { row(w, t.ID, t.Name, "revoked") })
			})
		},
	}
	from.flags(c)
	out.flags(c)
	c.Flags().StringVar(&by, "by", "", "who ends it (default: your login name)")
	return c
}
