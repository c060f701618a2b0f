package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/crashtest"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// atOnce is how many worlds live at the same time: most of a world's life is waiting for a fence to die.
const atOnce = 6

// TestEveryPointOfAnEffect kills a program at every statement, before and after, of claiming and sending one effect, of
// committing what a probe found, and of sending again what a probe proved absent. After each death another program takes over, and the
// outside world's own count must be one.
//
// fewest is what the count of points must not fall below: a driver or a ledger that hides its statements would make the test pass by
// testing nothing.
func TestEveryPointOfAnEffect(t *testing.T) {
	for _, b := range []backend{onSQLite, onPostgres} {
		for _, tt := range []struct {
			act    act
			class  class
			fewest map[string]int
		}{
			{actSend, exactProbe, map[string]int{"sqlite": 60, "postgres": 40}},
			{actSend, replaySafe, map[string]int{"sqlite": 60, "postgres": 40}},
			{actReconcile, exactProbe, map[string]int{"sqlite": 40, "postgres": 25}},
			{actResend, exactProbe, map[string]int{"sqlite": 40, "postgres": 25}},
		} {
			t.Run(fmt.Sprintf("%s/%s/%s", b.name, tt.act, tt.class), func(t *testing.T) {
				began := time.Now()
				var at string
				if b.shared {
					at = b.fresh(t, "")
				}
				points, err := crashtest.Enumerate(t.Context(), atOnce, t.TempDir(),
					func(point int) (scene, crashtest.Victim, error) { return prepare(t, b, at, tt.act, tt.class) },
					func(s scene, r crashtest.Result) error { return recover1(t.Context(), b, s) })
				if err != nil {
					t.Fatal(err)
				}
				fmt.Printf("crash points: %3d  %s, %s, %s (%s)\n", points, b.name, tt.act, tt.class, time.Since(began).Round(100*time.Millisecond))
				if points < tt.fewest[b.name] {
					t.Errorf("%d points, fewer than the %d there were: the driver hides statements, or the test lost some", points, tt.fewest[b.name])
				}
			})
		}
	}
}

// prepare makes a world. For the reconciler's acts it holds an attempt whose answer was lost.
func prepare(t *testing.T, b backend, at string, a act, c class) (scene, crashtest.Victim, error) {
	dir, err := os.MkdirTemp(t.TempDir(), "world-")
	if err != nil {
		return scene{}, crashtest.Victim{}, err
	}
	if at == "" {
		at = b.fresh(t, dir)
	}
	s := scene{Backend: b.name, At: at, Dir: dir, Class: c, Act: a, RunID: uuid.NewString()}
	if a != actSend {
		lose := map[act]string{actReconcile: "effect", actResend: "none"}[a]
		if err := s.leaveAmbiguous(t.Context(), b, lose); err != nil {
			return s, crashtest.Victim{}, err
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return s, crashtest.Victim{}, err
	}
	self, err := os.Executable()
	return s, crashtest.Victim{Command: []string{self}, Environment: []string{envScene + "=" + string(text)}}, err
}

// leaveAmbiguous sends once and loses the answer, without a reconciler.
func (s scene) leaveAmbiguous(ctx context.Context, b backend, lose string) error {
	l, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	e, err := s.engineWith(ctx, l, &fileWorld{dir: s.Dir, class: s.Class, lose: lose}, 20*time.Second) // given back at once
	if err != nil {
		return err
	}
	if err := b.change(ctx, s.At, l, s.claim(), nil); err != nil {
		return err
	}
	for range 20 { // a fence may run out on a slow machine before anything is sent
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err = e.Do(short, s.claim()) // ends with the context's error: an ambiguous intent waits for a reconciler
		cancel()
		i, _, readErr := l.Intent(ctx, s.key())
		if readErr == nil && i.Stamped() {
			return nil
		}
	}
	return fmt.Errorf("the attempt was not left ambiguous: %w", err)
}

// recover1 is what happens after the death: the caller, who has no answer, claims again, and an engine runs. Then everything is counted.
func recover1(ctx context.Context, b backend, s scene) error {
	l, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	w := &fileWorld{dir: s.Dir, class: s.Class}
	e, err := s.engine(ctx, l, w)
	if err != nil {
		return err
	}
	// The caller's state and the claim are both there, or neither.
	rows, err := b.rows(ctx, s.At, s.claim().EffectKey)
	if err != nil {
		return err
	}
	_, _, err = l.Intent(ctx, s.key())
	if claimed := err == nil; claimed != (rows == 1) {
		return fmt.Errorf("the caller has %d rows of its own, the claim is there: %v (%w)", rows, claimed, err)
	}
	if err := b.change(ctx, s.At, l, s.claim(), nil); err != nil {
		return fmt.Errorf("claim again: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(running) }()
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	i, err := e.Wait(wait, s.key())
	stop()
	err = errors.Join(err, <-done)
	if err != nil {
		return fmt.Errorf("recovery: %w (the intent is %s: %s)", err, i.State, i.LastError)
	}
	return s.verify(ctx, l, w, i)
}

func (s scene) verify(ctx context.Context, l ledger.Ledger, w *fileWorld, i ledger.Intent) error {
	n, err := w.count()
	if err != nil {
		return err
	}
	if i.State != ledger.StateCommitted || n != 1 {
		return fmt.Errorf("the intent is %s (%s), the outside world counts %d; want committed and 1", i.Outcome(), i.HoldReason, n)
	}
	key, err := receipt.LoadKey(s.Dir + "/receipt.key")
	if err != nil {
		return err
	}
	ring, err := receipt.NewKeyRing(key.Public())
	if err != nil {
		return err
	}
	receipts, err := l.ReceiptsOf(ctx, i.Key)
	if err != nil {
		return err
	}
	if len(receipts) != 1 {
		return fmt.Errorf("%d receipts, want one", len(receipts))
	}
	if v := receipt.Verify(receipts[0].Envelope, receipt.VerifyOptions{Keys: ring}); !v.OK {
		return fmt.Errorf("the receipt does not verify: %s", v)
	}
	return nil
}
