package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
)

// commitStatement is the statement on the wire, with its end, so that READ COMMITTED is not meant.
const commitStatement = "COMMIT\x00"

// throughProxy opens a ledger with one connection, through a proxy, that writes every statement out in full.
func throughProxy(t *testing.T) (l *postgres.Ledger, direct *postgres.Ledger, p *pgtest.Proxy) {
	t.Helper()
	direct, url := open(t)
	p, cut := pgtest.NewProxy(t, url)
	l, err := postgres.Open(t.Context(), postgres.Options{
		URL: cut + "&default_query_exec_mode=cache_describe", Signer: signer(t), MaxConns: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, direct, p
}

func TestSameMoveAfterALostAnswerIsHarmless(t *testing.T) {
	for name, happened := range map[string]bool{"answer cut": true, "request cut": false} {
		t.Run(name, func(t *testing.T) {
			l, direct, p := throughProxy(t)
			claim(t, l, newClaim("mail:a"))
			send(t, l, take(t, l, 1).Dispatches[0]) // every statement has been described once
			k := claim(t, l, newClaim("mail:b"))[0].Key
			d := take(t, l, 1).Dispatches[0]
			stamped := move(t, l, k, stampOf(d))
			commit := ledger.Commit{Fence: stamped.Intent.Fence(), Evidence: channel.Evidence{ID: "m-1"}, Established: ledger.BySend}
			want := ledger.StateDispatched
			if happened {
				want = ledger.StateCommitted
				p.CutAnswer(commitStatement)
			} else {
				p.CutRequest(commitStatement)
			}
			if _, err := l.Move(t.Context(), k, commit); err == nil {
				t.Fatal("the connection was cut and the move reported success")
			}
			if i, _, err := direct.Intent(t.Context(), k); err != nil || i.State != want {
				t.Fatalf("after the cut the row is %s, want %s (%v)", i.State, want, err)
			}
			again := move(t, l, k, commit)
			if again.Intent.State != ledger.StateCommitted || !again.Applied {
				t.Errorf("the same move again: %+v", again.Intent)
			}
			log, err := direct.Log(t.Context(), k)
			if err != nil || len(log) != 2 { // fenced, sent
				t.Errorf("log: %+v, %v", log, err)
			}
			receipts, err := direct.ReceiptsOf(t.Context(), k)
			if err != nil || len(receipts) != 1 {
				t.Errorf("%d receipts, want one (%v)", len(receipts), err)
			}
		})
	}
}

func TestClaimAfterALostCommitIsDeduplicated(t *testing.T) {
	l, direct, p := throughProxy(t)
	claim(t, l, newClaim("mail:warm"))
	c := newClaim("mail:a")
	p.CutAnswer(commitStatement)
	err := l.InTx(t.Context(), func(tx ledger.Tx) error {
		_, err := l.Claim(t.Context(), tx, c)
		return err
	})
	if err == nil {
		t.Fatal("the connection was cut and the claim reported success")
	}
	if r := claim(t, direct, c)[0]; r.Status != ledger.ClaimDeduplicated {
		t.Errorf("the caller's second try is %s", r.Status)
	}
}

func TestDatabaseCutOffIsAnErrorAndThenWorksAgain(t *testing.T) {
	_, url := open(t)
	p, cut := pgtest.NewProxy(t, url)
	l := openAt(t, cut, func(o *postgres.Options) { o.StatementTimeout = time.Second })
	claim(t, l, newClaim("mail:a"))
	p.Down()
	begun := time.Now()
	if _, err := l.Fence(t.Context(), fenceRequest(1)); err == nil {
		t.Fatal("a ledger that is cut off fenced an intent")
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %s to notice, more than the statement time-out allows", took)
	}
	p.Up()
	if n := len(take(t, l, 1).Dispatches); n != 1 {
		t.Errorf("after the cut %d were fenced", n)
	}
}

func TestServerThatWasKilledLosesNothing(t *testing.T) {
	s := pgtest.NewServer(t)
	l := openAt(t, s.Database(t))
	k := claim(t, l, newClaim("mail:a"))[0].Key
	d := take(t, l, 1).Dispatches[0]
	stamped := move(t, l, k, stampOf(d))
	s.Restart(t)
	done := move(t, l, k, ledger.Commit{Fence: stamped.Intent.Fence(), Evidence: channel.Evidence{ID: "1"}, Established: ledger.BySend})
	if done.Intent.State != ledger.StateCommitted {
		t.Errorf("after the restart: %+v", done.Intent)
	}
}

func TestReadOnlyDatabaseSaysSo(t *testing.T) {
	s := pgtest.NewServer(t)
	l := openAt(t, s.Database(t))
	k := claim(t, l, newClaim("mail:a"))[0].Key
	d := take(t, l, 1).Dispatches[0]
	s.Standby(t, true)
	for name, call := range map[string]func() error{
		"fence": func() error { _, err := l.Fence(t.Context(), fenceRequest(1)); return err },
		"move":  func() error { _, err := l.Move(t.Context(), k, stampOf(d)); return err },
		"claim": func() error {
			return l.InTx(t.Context(), func(tx ledger.Tx) error {
				_, err := l.Claim(t.Context(), tx, newClaim("mail:b"))
				return err
			})
		},
		"heartbeat": func() error { return l.SetPaused(t.Context(), mail, true, "test") },
	} {
		if err := call(); !errors.Is(err, postgres.ErrReadOnly) {
			t.Errorf("%s on a standby: %v", name, err)
		}
	}
	if _, _, err := l.Intent(t.Context(), k); err != nil {
		t.Errorf("a standby can be read: %v", err)
	}
	s.Standby(t, false)
	move(t, l, k, stampOf(d))
}

func TestCommitWithoutItsStandbyIsNoSuccess(t *testing.T) {
	s := pgtest.NewServer(t)
	url := s.Database(t)
	l := openAt(t, url, func(o *postgres.Options) { o.StatementTimeout = time.Second })
	k := claim(t, l, newClaim("mail:a"))[0].Key
	d := take(t, l, 1).Dispatches[0]
	p := pool(t, url)
	standby := func(names string) {
		t.Helper()
		for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := p.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for { // the server tells nobody when it has read its configuration
			var have string
			if err := p.QueryRow(t.Context(), "SELECT current_setting('synchronous_standby_names')").Scan(&have); err != nil {
				t.Fatal(err)
			}
			if have == names {
				return
			}
		}
	}
	standby("nobody")
	// Sessions wait only once another process of the server has read its configuration, too: commit until one waits.
	for n := 0; ; n++ {
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := p.Exec(short, fmt.Sprintf("CREATE TABLE waits_%d ()", n))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil || n > 1000 {
			t.Fatalf("no commit waits for the standby that is not there: %v", err)
		}
	}
	if _, err := l.Move(t.Context(), k, stampOf(d)); err == nil {
		t.Error("a stamp that is on the primary alone was reported as durable")
	}
	standby("")
}

func TestUnsafeServersAreRefused(t *testing.T) {
	s := pgtest.NewServer(t, "fsync=off")
	url := s.Database(t)
	if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url}); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	var wrong *ledger.InvalidError
	if !errors.As(err, &wrong) || wrong.Field != "fsync" {
		t.Errorf("fsync=off: %v", err)
	}
}
