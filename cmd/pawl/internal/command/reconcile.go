package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/ledger"
)

// reconciled is what reconcile prints.
type reconciled struct {
	Looked     int `json:"looked"`
	Dispatched int `json:"dispatched"` // not held, not accepted
	Accepted   int `json:"accepted"`
	Held       int `json:"held"`
}

func reconcileOnce(c *cobra.Command, from source, out output) (err error) {
	cfg, err := from.load()
	if err != nil {
		return err
	}
	cfg.Log.Level = "warn" // what it did is printed
	s, err := server.Start(c.Context(), server.Options{Config: cfg, Version: version().Version, Logger: newLogger(c, cfg.Log), Strict: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	looked, err := s.Engine.ReconcileOnce(c.Context())
	if err != nil {
		return err
	}
	var stats ledger.Stats
	if stats, err = s.Ledger.Stats(c.Context()); err != nil {
		return err
	}
	r := reconciled{looked, stats.Dispatched, stats.Accepted, stats.Held}
	return out.print(c, r, func(w io.Writer) {
		row(w, "LOOKED", "DISPATCHED", "ACCEPTED", "HELD")
		row(w, fmt.Sprint(r.Looked), fmt.Sprint(r.Dispatched), fmt.Sprint(r.Accepted), fmt.Sprint(r.Held))
	})
}
