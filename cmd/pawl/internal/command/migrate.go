package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
)

func newMigrate() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make a ledger's tables, or bring them up to date",
		Long: `Make a ledger's tables, or bring them up to date. An engine does this by itself for an embedded ledger (sqlite:); for
Postgres it is a step of its own, or print is applied by hand.`,
	}
	c.AddCommand(newMigrateUp(), newMigrateStatus(), newMigratePrint())
	return c
}

// migrated is what migrate up and migrate status print.
type migrated struct {
	Ledger     string             `json:"ledger"`
	LedgerID   string             `json:"ledger_id,omitempty"` // once it is migrated
	Migrations []server.Migration `json:"migrations"`
}

func newMigrateUp() *cobra.Command {
	var from source
	var out output
	c := &cobra.Command{
		Use:     "up",
		Short:   "Apply what the ledger lacks",
		Example: `  pawl migrate up --ledger postgres://pawl@db.example.org/pawl`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if err := server.Migrate(c.Context(), cfg); err != nil {
				return err
			}
			return showMigrations(c, cfg, out, true)
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

func newMigrateStatus() *cobra.Command {
	var from source
	var out output
	c := &cobra.Command{
		Use:   "status",
		Short: "Say which migrations the ledger has; the exit code is 3 if it lacks one",
		Args:  none,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			return showMigrations(c, cfg, out, false)
		},
	}
	from.flags(c)
	out.flags(c)
	return c
}

// showMigrations prints what the ledger has, and then says whether it can be used.
func showMigrations(c *cobra.Command, cfg config.Config, out output, wasMigrated bool) error {
	m := migrated{Ledger: cfg.Ledger.URL.String()}
	l, unusable := server.OpenLedger(c.Context(), cfg)
	if unusable == nil {
		m.LedgerID = l.ID()
		unusable = l.Close()
	}
	if unusable != nil && wasMigrated {
		return unusable
	}
	all, err := server.Migrations(c.Context(), cfg)
	if err != nil && unusable != nil { // it is said best by what an engine would be told
		return unusable
	}
	if err != nil {
		return err
	}
	m.Migrations = all
	err = out.print(c, m, func(w io.Writer) {
		row(w, "ledger", m.Ledger)
		optional(w, "id", m.LedgerID)
		fmt.Fprintln(w)
		row(w, "VERSION", "NAME", "APPLIED")
		for _, step := range all {
			row(w, fmt.Sprint(step.Version), step.Name, yes(step.Applied))
		}
	})
	if err != nil {
		return err
	}
	return unusable
}

func newMigratePrint() *cobra.Command {
	var from source
	var after int64
	c := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations as plain SQL, to be applied by hand",
		Long: `Print the migrations as plain SQL, to be applied by hand, for the kind of ledger that is configured: a script for psql, in a
session whose search_path begins with the ledger's schema, or for the sqlite3 shell. It keeps the migrator's own table, so
that both ways may be mixed.`,
		Example: `  pawl migrate print --ledger postgres://db.example.org/pawl | psql pawl`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if after < 0 {
				return usage("--after: must not be negative, is %d", after)
			}
			return server.PrintMigrations(c.OutOrStdout(), cfg, after)
		},
	}
	from.flags(c)
	c.Flags().Int64Var(&after, "after", 0, "only what comes after this version")
	return c
}
