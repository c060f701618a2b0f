package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/core/crashtest"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/host"
)

// envAdapter tells the test binary that it is an adapter, and where its outside world is.
const envAdapter = "PAWL_CRASHTEST_ADAPTER"

// adapterOf is a real adapter process around the file world, with points around everything that it does.
func adapterOf(dir string) sdk.Adapter {
	sheet := channel.Sheet{Kind: "world", Version: "1", Token: channel.TokenDerived, Begin: true, Probe: channel.ProbeExact,
		NegativeProof: true, SettleTime: channel.Duration(20 * time.Millisecond)}
	return sdk.Adapter{Sheet: sheet, New: func(context.Context, json.RawMessage) (channel.Channel, error) {
		points, err := crashtest.FromEnvironment()
		return &outOfProcess{fileWorld{dir: dir, class: exactProbe, points: points}}, err
	}}
}

type outOfProcess struct{ fileWorld }

func (w *outOfProcess) IdempotencyToken(ctx context.Context, r channel.TokenRequest) (channel.Token, error) {
	w.hit("before the token")
	t, err := w.fileWorld.IdempotencyToken(ctx, r)
	w.hit("after the token")
	return t, err
}

func (w *outOfProcess) Send(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
	w.hit("before the record of Begin")
	if err := a.Begin(); err != nil {
		return channel.Outcome{}, err
	}
	w.hit("after the record of Begin")
	if err := w.write(a.Token().Data); err != nil {
		return channel.Outcome{}, err
	}
	w.hit("after the effect")
	return channel.Delivered(channel.Evidence{ID: string(a.Token().Data)}), nil
}

// TestEveryPointOfAnAdapter kills the adapter process at each of its points, its pipe records included, under an engine that lives: the host
// notices, starts it again, and the effect takes place once.
func TestEveryPointOfAnAdapter(t *testing.T) {
	const fewest = 5
	points := 0
	for point := 1; ; point++ {
		died, err := adapterDiesAt(t, point)
		if err != nil {
			t.Fatalf("point %d: %v", point, err)
		}
		if !died {
			break
		}
		points++
	}
	fmt.Printf("crash points: %3d  adapter process\n", points)
	if points < fewest {
		t.Errorf("%d points, fewer than the %d there were", points, fewest)
	}
}

func adapterDiesAt(t *testing.T, point int) (died bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := scene{Backend: "sqlite", Dir: t.TempDir(), Class: exactProbe, Act: actSend, RunID: uuid.NewString()}
	s.At = onSQLite.fresh(t, s.Dir)
	l, err := s.open(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	armed := filepath.Join(s.Dir, "armed")
	environment, err := crashtest.Once(point, armed)
	if err != nil {
		return false, err
	}
	environment[envAdapter] = s.Dir
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	a, err := host.Launch(ctx, host.Options{
		Name: "world", Path: self, Env: environment, BeginProven: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()
	e, err := s.engineWith(ctx, l, &fileWorld{}, 2*time.Second)
	if err != nil {
		return false, err
	}
	sheet := a.Sheet()
	o := e.Options()
	o.Channels[0].Channel, o.Channels[0].Sheet = a, &sheet
	if e, err = core.New(ctx, o); err != nil {
		return false, err
	}
	if _, err := core.Claim(ctx, l, s.claim()); err != nil {
		return false, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(running) }()
	i, err := e.Wait(ctx, s.key())
	for err == nil && i.State != ledger.StateCommitted && ctx.Err() == nil { // a held one is still probed
		time.Sleep(20 * time.Millisecond)
		i, err = e.Wait(ctx, s.key())
	}
	stop()
	if err = errors.Join(err, <-done); err != nil {
		return false, err
	}
	_, statErr := os.Stat(armed)
	return statErr != nil, s.verify(ctx, l, &fileWorld{dir: s.Dir, class: exactProbe}, i)
}
