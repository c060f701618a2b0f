package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/receipt"
)

// dispatched claims and fences n intents, each with a lane of its own if laned.
func dispatched(t *testing.T, l *postgres.Ledger, n int, laned bool) []ledger.Dispatch {
	t.Helper()
	claims := make([]ledger.Claim, n)
	for i := range claims {
		claims[i] = newClaim(fmt.Sprintf("mail:%03d", i))
		if laned {
			claims[i].Lane = "lane-" + claims[i].EffectKey
		}
	}
	claim(t, l, claims...)
	r := take(t, l, n)
	if len(r.Dispatches) != n {
		t.Fatalf("%d of %d were fenced", len(r.Dispatches), n)
	}
	return r.Dispatches
}

func TestWhatOneMoveWaitsForDelaysNoOther(t *testing.T) {
	for _, tt := range []struct {
		name, lock string
		laned      bool
	}{
		{"a locked intent", "SELECT FROM effect_intents WHERE effect_key = $1 FOR UPDATE", false},
		{"a lane that a claimer holds", "UPDATE lanes SET wanted = wanted WHERE lane = 'lane-' || $1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, url := open(t, func(o *postgres.Options) { o.MaxConns = 8 })
			all := dispatched(t, l, 40, tt.laned)
			tx, err := pool(t, url).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := tx.Exec(t.Context(), tt.lock, all[0].Intent.EffectKey); err != nil {
				t.Fatal(err)
			}
			// The one that must wait is asked for three times, more than there are turns.
			blocked := make(chan error, 3)
			for range cap(blocked) {
				go func() { blocked <- abandon(t.Context(), l, all[0]) }()
			}
			var free sync.WaitGroup
			for _, d := range all[1:] {
				free.Go(func() {
					if err := abandon(t.Context(), l, d); err != nil {
						t.Errorf("a neighbour of the locked one: %v", err)
					}
				})
			}
			free.Wait() // would last until the statement time-out if it waited
			select {
			case err := <-blocked:
				t.Fatalf("the locked one ended: %v", err)
			default:
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range cap(blocked) {
				if err := <-blocked; err != nil {
					t.Errorf("the one that waited: %v", err)
				}
			}
		})
	}
}

// abandon ends a dispatch that was not stamped. Made again under its fence it is done already.
func abandon(ctx context.Context, l *postgres.Ledger, d ledger.Dispatch) error {
	_, err := l.Move(ctx, d.Intent.Key, ledger.Abandon{Fence: d.Intent.Fence(), As: ledger.NeverSent, Reason: "of the test"})
	return err
}

func TestWhatFailsOneMoveFailsNoOther(t *testing.T) {
	l, _ := open(t)
	all := dispatched(t, l, 60, false)
	const clash, lost = 20, 40 // from here on
	var group sync.WaitGroup
	errs := make([]error, len(all))
	for n, d := range all {
		group.Go(func() {
			stamp := stampOf(d)
			switch {
			case n >= lost:
				stamp.Fence.Number++
			case n >= clash: // the database refuses: one token belongs to one intent
				stamp.Token = &channel.Token{Version: 1, Data: []byte("the same for some")}
			}
			_, errs[n] = l.Move(t.Context(), d.Intent.Key, stamp)
		})
	}
	group.Wait()
	stamped := 0
	for n, err := range errs {
		switch {
		case n >= lost:
			if !errors.Is(err, ledger.ErrFenceLost) {
				t.Errorf("%d under a lost fence: %v", n, err)
			}
		case n >= clash && errors.Is(err, ledger.ErrTokenClash):
		case err != nil:
			t.Errorf("%d: %v", n, err)
		case n >= clash:
			stamped++
		}
	}
	if stamped != 1 {
		t.Errorf("%d intents have the one token", stamped)
	}
}

func TestEvidenceThatTwoNeighboursClaimBelongsToOne(t *testing.T) {
	l, _ := open(t)
	all := dispatched(t, l, 16, false)
	for n, d := range all {
		all[n].Intent = move(t, l, d.Intent.Key, stampOf(d)).Intent
	}
	var group sync.WaitGroup
	for _, d := range all {
		group.Go(func() {
			if _, err := l.Move(t.Context(), d.Intent.Key, ledger.Commit{Fence: d.Intent.Fence(), Evidence: channel.Evidence{ID: "one"}, Established: ledger.BySend}); err != nil {
				t.Errorf("commit %s: %v", d.Intent.Key, err)
			}
		})
	}
	group.Wait()
	committed := 0
	for _, d := range all {
		i, _, err := l.Intent(t.Context(), d.Intent.Key)
		if err != nil {
			t.Fatal(err)
		}
		if i.State == ledger.StateCommitted {
			committed++
		} else if !i.Held() {
			t.Errorf("%s is %s, not held", i.Key, i.Outcome())
		}
	}
	if committed != 1 {
		t.Errorf("%d intents were committed by one piece of evidence", committed)
	}
}

func TestCloseWaitsForMovesThatShareATransaction(t *testing.T) {
	l, _ := open(t)
	all := dispatched(t, l, 50, false)
	var group sync.WaitGroup
	for _, d := range all {
		group.Go(func() {
			if err := abandon(t.Context(), l, d); err != nil && !errors.Is(err, postgres.ErrClosed) {
				t.Errorf("%s: %v", d.Intent.Key, err)
			}
		})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
}

func TestAMoveThatIsGivenUpWritesNothingLater(t *testing.T) {
	l, url := open(t, func(o *postgres.Options) { o.MaxConns = 1 })
	all := dispatched(t, l, 2, false)
	held := make(chan struct{})
	release := make(chan struct{})
	done := make(chan error, 1)
	go func() { // the only connection
		done <- l.InTx(context.WithoutCancel(t.Context()), func(ledger.Tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _ = abandon(ctx, l, all[0]) })
	}
	<-ctx.Done()
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	group.Wait()
	other := openAt(t, url)
	if err := abandon(t.Context(), other, all[1]); err != nil {
		t.Error(err)
	}
	i, _, err := other.Intent(t.Context(), all[0].Intent.Key)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := other.Intent(t.Context(), all[0].Intent.Key)
	if err != nil || again.State != i.State {
		t.Errorf("it was %s and is %s (%v), after all callers had returned", i.State, again.State, err)
	}
}

// failingSigner ends whoever asks for the receipt of one effect.
type failingSigner struct {
	ledger.Signer
	key string
	end func()
}

func (s failingSigner) Issue(e receipt.Effect) (receipt.Receipt, error) {
	if e.EffectKey == s.key {
		s.end()
	}
	return s.Signer.Issue(e)
}

func TestASignerThatEndsItsGoroutineTakesNoNeighbourWithIt(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("of the test") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			plain, url := open(t)
			all := dispatched(t, plain, 40, false)
			l := openAt(t, url, func(o *postgres.Options) {
				o.Signer = failingSigner{signer(t), all[20].Intent.EffectKey, end}
			})
			errs := make([]error, len(all))
			left, most := 0, 1
			if name == "goexit" {
				most = 2 // whoever worked for all when it ended has ended, too
			}
			var group sync.WaitGroup
			for n, d := range all {
				group.Go(func() {
					errs[n] = errors.New("its goroutine was ended")
					defer func() { _ = recover() }() // as a web server does
					errs[n] = abandon(t.Context(), l, d)
				})
			}
			group.Wait()
			for n, d := range all {
				i, _, err := plain.Intent(t.Context(), d.Intent.Key)
				if err != nil {
					t.Fatal(err)
				}
				written := i.State == ledger.StateAbandoned
				if written != (errs[n] == nil) {
					t.Errorf("%s is %s, and its caller was told: %v", i.Key, i.State, errs[n])
				}
				if !written {
					left++
				}
			}
			if left > most {
				t.Errorf("%d are not written, more than %d", left, most)
			}
		})
	}
}
