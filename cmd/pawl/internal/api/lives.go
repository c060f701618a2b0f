package api

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Stats counts.
func (s *Service) Stats(ctx context.Context) (pawlclient.Stats, error) {
	v, err := s.ledger.Stats(ctx)
	return pawlclient.Stats{
		Waiting: v.Waiting, Dispatched: v.Dispatched, Accepted: v.Accepted, Held: v.Held, Committed: v.Committed, Abandoned: v.Abandoned,
		OldestWaiting: v.OldestWaiting.Seconds(), OldestUnknown: v.OldestUnknown.Seconds(), OwedReceipts: v.OwedReceipts,
	}, problem(err, "path")
}

// Engines lists the engines that the ledger has seen.
func (s *Service) Engines(ctx context.Context) ([]pawlclient.Engine, error) {
	found, err := s.ledger.Instances(ctx)
	views := []pawlclient.Engine{}
	for _, i := range found {
		views = append(views, pawlclient.Engine{
			Instance: i.ID, Host: i.Host, Process: i.Process, Version: i.Version, StartedAt: i.StartedAt, LastSeen: i.LastSeen,
			Age: i.Age.Seconds(), Stopped: !i.StoppedAt.IsZero(),
		})
	}
	return views, problem(err, "path")
}

// Epochs lists the lives of the ledger, oldest first.
func (s *Service) Epochs(ctx context.Context) ([]pawlclient.Epoch, error) {
	rows, err := s.ledger.Epochs(ctx)
	views := []pawlclient.Epoch{}
	for _, r := range rows {
		views = append(views, viewEpoch(r))
	}
	return views, problem(err, "path")
}

func viewEpoch(r ledger.EpochRow) pawlclient.Epoch {
	return pawlclient.Epoch{LedgerID: r.LedgerID, Epoch: r.Epoch, OpenedAt: r.OpenedAt, Horizon: r.Horizon.Seconds(), By: r.By, Reason: r.Reason}
}

// OpenEpoch begins a new life of the ledger.
func (s *Service) OpenEpoch(ctx context.Context, o pawlclient.OpenEpoch) (pawlclient.Epoch, error) {
	horizon, err := seconds("body.horizon_seconds", o.Horizon, 0)
	switch {
	case err != nil:
		return pawlclient.Epoch{}, err
	case o.From < 1:
		return pawlclient.Epoch{}, invalid("body.from", "is missing: give the present epoch as it was shown")
	}
	a, err := s.action(ctx, "epoch.open", fmt.Sprint(o.From), o.By, o.Reason)
	if err != nil {
		return pawlclient.Epoch{}, err
	}
	a.detail["horizon_seconds"] = o.Horizon
	var row ledger.EpochRow
	err = s.audited(ctx, a, func() error {
		row, err = s.ledger.OpenEpoch(ctx, ledger.OpenEpoch{By: a.by, Reason: o.Reason, From: o.From, Horizon: horizon})
		return problem(err, "body")
	})
	return viewEpoch(row), err
}

// longest bounds a duration that a request states: a hundred years.
const longest = 100 * 365 * 24 * time.Hour

func seconds(location string, v float64, least time.Duration) (time.Duration, error) {
	if !(v >= least.Seconds() && v <= longest.Seconds()) { // also not a number
		return 0, invalid(location, "must be between %.0f and %.0f seconds", least.Seconds(), longest.Seconds())
	}
	return time.Duration(math.Round(v * float64(time.Second))), nil
}

// pruneStep is how many intents one transaction prunes.
const pruneStep = 500

// Prune removes payload, tokens and log of intents that ended long ago. It goes on until all is done; what was done before it fails
// stays done. A caller without a name is an error, as for every action. Of several that are asked for at once each does, and counts, its own.
func (s *Service) Prune(ctx context.Context, p pawlclient.Prune) (pawlclient.Pruned, error) {
	done := pawlclient.Pruned{DryRun: p.DryRun}
	older, err := seconds("body.older_than_seconds", p.OlderThan, ledger.MinRetention)
	if err != nil {
		return done, err
	}
	if p.DryRun {
		return done, problem(s.pruneInTurn(ctx, older, &done), "body")
	}
	actor, by, err := s.acting(ctx, p.By)
	if err != nil {
		return done, err
	}
	a := action{actor: actor, by: by, name: "ledger.prune", subject: older.String()}
	err = s.audited(ctx, a, func() error {
		err := s.pruneInTurn(ctx, older, &done)
		a.detail = map[string]any{"intents": done.Intents}
		return problem(err, "body")
	})
	return done, err
}

func (s *Service) pruneInTurn(ctx context.Context, older time.Duration, done *pawlclient.Pruned) error {
	select {
	case s.pruning <- struct{}{}:
		defer func() { <-s.pruning }()
		return s.prune(ctx, older, done)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Service) prune(ctx context.Context, older time.Duration, done *pawlclient.Pruned) error {
	for {
		r, err := s.ledger.Prune(ctx, older, pruneStep, done.DryRun)
		if err != nil {
			return err
		}
		done.Intents += r.Intents
		done.Tokens += r.Tokens
		done.LogRows += r.LogRows
		done.Instances += r.Instances
		if r.Done {
			return nil
		}
	}
}
