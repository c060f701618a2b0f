package crashtest_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/crashtest"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/receipt"
)

// TestEveryCommitWhoseAnswerIsCut lets the answer of one COMMIT after the other disappear: the database has committed, the program sees
// an error and goes on. A claim is then claimed again, a stamp is not sent, evidence is written again: one effect, one receipt.
func TestEveryCommitWhoseAnswerIsCut(t *testing.T) {
	backends := map[string]func(t *testing.T, s *scene, at int64) (l ledger.Ledger, commits func() int64){
		"sqlite":   cutOnSQLite,
		"postgres": cutOnPostgres,
	}
	fewest := map[string]int{"sqlite": 4, "postgres": 4}
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			cuts := 0
			for at := int64(1); ; at++ {
				s := scene{Backend: name, Dir: t.TempDir(), Class: exactProbe, Act: actSend, RunID: uuid.NewString()}
				l, commits := open(t, &s, at)
				if err := s.carryThrough(t.Context(), l); err != nil {
					t.Fatalf("commit %d cut: %v", at, err)
				}
				reached := commits() >= at
				if err := l.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if !reached {
					break
				}
				cuts++
				if at > 200 {
					t.Fatal("the program never ends: it commits for ever")
				}
				if at >= 12 { // what follows is heartbeats and looks
					break
				}
			}
			fmt.Printf("commits cut: %3d  %s\n", cuts, name)
			if cuts < fewest[name] {
				t.Errorf("%d commits were cut, fewer than the %d that one effect needs", cuts, fewest[name])
			}
		})
	}
}

// carryThrough claims until it has an answer, as a caller does, and lets an engine send.
func (s scene) carryThrough(ctx context.Context, l ledger.Ledger) error {
	w := &fileWorld{dir: s.Dir, class: s.Class}
	e, err := s.engine(ctx, l, w)
	for n := 0; err != nil && n < 5; n++ {
		e, err = s.engine(ctx, l, w)
	}
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if _, err = core.Claim(ctx, l, s.claim()); err == nil {
			break
		}
		if n == 5 {
			return fmt.Errorf("claim: %w", err)
		}
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(running) }()
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	i, err := e.Wait(wait, s.key())
	stop()
	if runErr := <-done; runErr != nil {
		// The first heartbeat is what Run begins with: its caller starts it again.
		again, end := context.WithCancel(ctx)
		go func() { done <- e.Run(again) }()
		wait, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		i, err = e.Wait(wait, s.key())
		end()
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return err
	}
	return s.verify(ctx, l, w, i)
}

func (s scene) issuer(t *testing.T) *receipt.Issuer {
	key, err := receipt.LoadOrCreateKey(filepath.Join(s.Dir, "receipt.key"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "organism:crashtest:main", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return issuer
}

func cutOnSQLite(t *testing.T, s *scene, at int64) (ledger.Ledger, func() int64) {
	s.At = onSQLite.fresh(t, s.Dir)
	var connectors []*crashtest.Connector
	l, err := sqlite.Open(t.Context(), sqlite.Options{Path: s.At, Signer: s.issuer(t), Connector: func(c driver.Connector) driver.Connector {
		wrapped := &crashtest.Connector{Connector: c}
		connectors = append(connectors, wrapped)
		return wrapped
	}})
	if err != nil {
		t.Fatal(err)
	}
	var before int64 // commits of opening are not the program's
	for _, c := range connectors {
		before += c.Commits()
	}
	for _, c := range connectors {
		c.CutAfter(at)
	}
	return l, func() int64 {
		var n int64
		for _, c := range connectors {
			n += c.Commits()
		}
		return n - before
	}
}

func cutOnPostgres(t *testing.T, s *scene, at int64) (ledger.Ledger, func() int64) {
	s.At = onPostgres.fresh(t, s.Dir)
	config, err := pgxpool.ParseConfig(s.At)
	if err != nil {
		t.Fatal(err)
	}
	cutter := &crashtest.CommitCutter{}
	config.ConnConfig.DialFunc = cutter.Dial
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := postgres.Open(t.Context(), postgres.Options{Pool: pool, Signer: s.issuer(t)})
	if err != nil {
		t.Fatal(err)
	}
	before := cutter.Commits()
	cutter.CutAfter(at)
	return l, func() int64 { return cutter.Commits() - before }
}
