package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// holdOpen keeps a transaction open in the ledger, and so its write lock, or its only connection, until what it returns is called.
func holdOpen(t *testing.T, l ledger.Ledger) (release func()) {
	t.Helper()
	held, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.InTx(context.WithoutCancel(t.Context()), func(tx ledger.Tx) error {
			_, err := l.Claim(t.Context(), tx, ledger.Claim{RunID: newRun(), EffectKey: "mail:holds", Channel: mailChannel, Payload: []byte(`{"to":"a","subject":"s"}`)})
			close(held)
			<-let
			return err
		})
	}()
	<-held
	return func() {
		close(let)
		if err := <-done; err != nil {
			t.Log("the transaction that was held:", err) // it may have had its time, too
		}
	}
}

func TestALedgerThatHasNoTimeIsUnavailableAndNoMistakeOfTheProgram(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (busy, other ledger.Ledger){
		"sqlite, another process writes": func(t *testing.T) (ledger.Ledger, ledger.Ledger) {
			o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db")}
			if _, err := sqlite.Migrate(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			other, err := sqlite.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, other)
			putChannels(t, other)
			o.StatementTimeout = 200 * time.Millisecond
			l, err := sqlite.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, l)
			return l, other
		},
		"postgres, every connection is in use": func(t *testing.T) (ledger.Ledger, ledger.Ledger) {
			url := pgtest.Database(t)
			if _, err := postgres.Migrate(t.Context(), postgres.MigrateOptions{URL: url}); err != nil {
				t.Fatal(err)
			}
			l, err := postgres.Open(t.Context(), postgres.Options{URL: url, MaxConns: 1, StatementTimeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, l)
			putChannels(t, l)
			return l, l
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, other := open(t)
			w := worldOver(t, l, func(_ *ServiceOptions, h *HandlerOptions) { h.RequestTime, h.TokenMemory = time.Second, time.Hour })
			secret := w.token(t, pawlclient.ScopeClaim)
			c := mailClaim(newRun(), "mail:a")
			if r := w.call(t, secret, http.MethodPost, "/v1/intents", c); r.status != http.StatusCreated { // the token is known from here on
				t.Fatal(r.body)
			}
			release := holdOpen(t, other)
			var group sync.WaitGroup
			for n := range 8 {
				group.Go(func() {
					key := ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey}
					_, err := w.ledger.Move(t.Context(), key, ledger.RequestCancel{By: "a person", Reason: "r"})
					checkUnavailable(t, "a move", problem(err, "body"))
					r := w.call(t, secret, http.MethodPost, "/v1/intents", mailClaim(newRun(), fmt.Sprintf("mail:%d", n)))
					if p := r.problem(t); p.Code != pawlclient.CodeUnavailable || p.RetryAfter == 0 {
						t.Errorf("a claim: %s", r.body)
					}
				})
			}
			group.Wait()
			release()
		})
	}
}

func checkUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	var p *pawlclient.Problem
	if !errors.As(err, &p) || p.Code != pawlclient.CodeUnavailable || p.RetryAfter == 0 {
		t.Errorf("%s: %v", what, err)
	}
}

func TestALedgerThatIsClosedIsUnavailable(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		if err := w.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := w.service.Claim(t.Context(), mailClaim(newRun(), "mail:a"))
		checkUnavailable(t, "a claim", err)
		_, err = w.service.Stats(t.Context())
		checkUnavailable(t, "counters", err)
	})
}

// lostAnswer pauses a channel, and loses the answer.
type lostAnswer struct{ ledger.Ledger }

func (l lostAnswer) SetPaused(ctx context.Context, name string, paused bool, reason string) error {
	return errors.Join(l.Ledger.SetPaused(ctx, name, paused, reason), io.ErrUnexpectedEOF)
}

func TestAnActionWhoseAnswerIsLostIsNotWrittenDownAsRefused(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, lostAnswer{l})
	_, err := w.service.PauseChannel(t.Context(), mailChannel, "a person", "r")
	checkUnavailable(t, "a pause", err)
	page, err := w.service.Audit(t.Context(), 10, "")
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Result != auditAsked {
		t.Errorf("the trail is %+v, %v; want what was asked for, and not that it was refused", page.Entries, err)
	}
	if c, err := w.service.Channel(t.Context(), mailChannel); err != nil || !c.Paused {
		t.Errorf("the channel is %+v, %v", c, err)
	}
}
