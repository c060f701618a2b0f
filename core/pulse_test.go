package core_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// idle is a ledger in memory with nothing to do: what an engine asks of it all the time, and nothing else.
type idle struct {
	ledger.Ledger
	hang chan struct{} // not nil: fences wait for it, and mind no deadline
	away atomic.Bool   // heartbeats fail
}

func (*idle) ID() string                                          { return "ledger" }
func (*idle) PutChannel(context.Context, ledger.ChannelRow) error { return nil }
func (i *idle) Heartbeat(context.Context, fence.Instance) error {
	if i.away.Load() {
		return errors.New("connection refused")
	}
	return nil
}
func (*idle) ChannelRow(context.Context, string) (ledger.ChannelRow, error) {
	return ledger.ChannelRow{Flag: ledger.FlagOn}, nil
}
func (i *idle) Fence(context.Context, ledger.FenceRequest) (ledger.FenceResult, error) {
	if i.hang != nil {
		<-i.hang
	}
	return ledger.FenceResult{NextDue: -1}, nil
}
func (*idle) DueLooks(context.Context, []string, int) ([]ledger.Key, error) { return nil, nil }
func (*idle) SilentLooks(context.Context, string, time.Duration, time.Duration, int) ([]ledger.Key, error) {
	return nil, nil
}
func (*idle) Scan(context.Context, ledger.Key, int) (ledger.ScanResult, error) {
	return ledger.ScanResult{Done: true}, nil
}
func (*idle) PayReceipts(context.Context, int) (int, int, error) { return 0, 0, nil }

// pulsing runs an engine in a bubble, lets change happen a second later, and looks at it after an hour more.
func pulsing(t *testing.T, hangs bool, change func(l *idle), look func(t *testing.T, p core.Pulse)) {
	synctest.Test(t, func(t *testing.T) {
		l := &idle{}
		if hangs {
			l.hang = make(chan struct{}) // of this bubble
		}
		e, err := core.New(t.Context(), core.Options{Ledger: l, Channels: []core.ChannelOptions{
			{Name: "test/one", Channel: newWorld(exactSheet), Policy: core.Policy{Unknown: core.UnknownHold}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(time.Second)
		change(l)
		time.Sleep(time.Hour)
		look(t, e.Pulse())
		if hangs {
			close(l.hang)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p := e.Pulse(); p.Running || len(p.Loops) > 0 {
			t.Errorf("after its end the engine has %+v", p)
		}
	})
}

func stuck(p core.Pulse) (names []string) {
	for _, l := range p.Loops {
		if l.Stuck() {
			names = append(names, l.Name+" "+l.Channel)
		}
	}
	return names
}

func TestAnIdleEngineMakesProgressInEveryLoop(t *testing.T) {
	t.Parallel()
	pulsing(t, false, func(*idle) {}, func(t *testing.T, p core.Pulse) {
		if !p.Running || p.Stopping || len(stuck(p)) > 0 || time.Since(p.LastBeat) > 2*core.DefaultHeartbeatEvery {
			t.Errorf("pulse %+v", p)
		}
		var names []string
		for _, l := range p.Loops {
			names = append(names, l.Name)
		}
		if want := []string{"dispatch", "heartbeat", "keep", "reconcile"}; !slices.Equal(names, want) {
			t.Errorf("loops %v, want %v", names, want)
		}
	})
}

func TestALoopThatStandsStillIsNamed(t *testing.T) {
	t.Parallel()
	pulsing(t, true, func(*idle) {}, func(t *testing.T, p core.Pulse) {
		if got := stuck(p); !slices.Equal(got, []string{"dispatch test/one"}) {
			t.Errorf("stuck are %v", got)
		}
	})
}

// TestALedgerThatIsAwayMakesNoLoopStuck: to start the process again would lose what it knows, and mend nothing.
func TestALedgerThatIsAwayMakesNoLoopStuck(t *testing.T) {
	t.Parallel()
	pulsing(t, true, func(l *idle) { l.away.Store(true) }, func(t *testing.T, p core.Pulse) {
		if got := stuck(p); len(got) > 0 || time.Since(p.LastBeat) < time.Hour {
			t.Errorf("stuck are %v, the last heartbeat is %s old", got, time.Since(p.LastBeat))
		}
	})
}
