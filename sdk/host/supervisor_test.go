package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// fakeLife is a generation without a process. Its fields are set before it is launched.
type fakeLife struct {
	channel.Channel
	number int64
	claims channel.Sheet
	pulse  func() (bool, error)
	inside chan struct{} // a send waits for it; nil: answers at once

	once  sync.Once
	gone  chan struct{}
	cause error
	mu    sync.Mutex
	ends  []string
}

func newFakeLife(number int64) *fakeLife {
	return &fakeLife{number: number, gone: make(chan struct{}), claims: strongSheet()}
}

func strongSheet() channel.Sheet {
	return channel.Sheet{
		Kind: "toy", Token: channel.TokenDerived, Replay: channel.ReplayWithinLife, TokenLife: channel.Duration(time.Hour),
		Probe: channel.ProbeExact, NegativeProof: true, Begin: true, SettleTime: channel.Duration(time.Minute),
	}
}

func (f *fakeLife) die(err error)             { f.once.Do(func() { f.cause = err; close(f.gone) }) }
func (f *fakeLife) note(end string)           { f.mu.Lock(); defer f.mu.Unlock(); f.ends = append(f.ends, end) }
func (f *fakeLife) sheet() channel.Sheet      { return f.claims }
func (f *fakeLife) identity() (int64, string) { return f.number, "digest" }
func (f *fakeLife) ended() <-chan struct{}    { return f.gone }
func (f *fakeLife) ending() error             { return f.cause }
func (f *fakeLife) kill()                     { f.note("kill"); f.die(errors.New("killed")) }
func (f *fakeLife) stop(context.Context)      { f.note("stop"); f.die(errors.New("stopped")) }
func (f *fakeLife) health(context.Context) (bool, error) {
	if f.pulse == nil {
		return true, nil
	}
	return f.pulse()
}

func (f *fakeLife) Send(context.Context, channel.Attempt) (channel.Outcome, error) {
	if f.inside != nil {
		<-f.inside
	}
	return channel.Delivered(channel.Evidence{ID: "1"}), nil
}

// fakeLauncher launches what the test says, and keeps count.
type fakeLauncher struct {
	mu      sync.Mutex
	lives   []*fakeLife
	at      []time.Time
	prepare func(*fakeLife) error
}

func (f *fakeLauncher) launch(_ context.Context, number int64, phase func(State)) (life, error) {
	phase(Starting)
	l := newFakeLife(number)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = append(f.at, time.Now())
	if f.prepare != nil {
		if err := f.prepare(l); err != nil {
			return nil, err
		}
	}
	f.lives = append(f.lives, l)
	return l, nil
}

func (f *fakeLauncher) newest() *fakeLife {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lives[len(f.lives)-1]
}

func (f *fakeLauncher) launches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.at)
}

func supervised(t *testing.T, f *fakeLauncher, adjust func(*supervisor)) *Adapter {
	t.Helper()
	options, err := Options{Name: "toy", Path: "/toy"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(options, f.launch)
	if adjust != nil {
		adjust(s)
	}
	if err := s.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &Adapter{supervisor: s}
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

func TestCrashedAdapterIsStartedAgainAfterAPauseThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLauncher{}
		longest := func(bound time.Duration) time.Duration { return bound - 1 }
		a := supervised(t, f, func(s *supervisor) { s.breaker.random = longest })
		var pauses []time.Duration
		for range crashLimit - 1 {
			fell := time.Now()
			f.newest().die(errors.New("crash"))
			synctest.Wait()
			if a.State() != Backoff {
				t.Fatalf("state %s, want backoff", a.State())
			}
			before := f.launches()
			for f.launches() == before {
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if a.State() != Ready {
				t.Fatalf("state %s, want ready", a.State())
			}
			pauses = append(pauses, f.at[len(f.at)-1].Sub(fell))
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}; !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
	})
}

func TestPauseIsSpreadOverItsWholeRange(t *testing.T) {
	b := newBreaker()
	now := time.Now()
	for range 20 {
		b.crash(now)
	}
	shortest, longest := time.Hour, time.Duration(0)
	for range 2000 {
		p := b.pause()
		shortest, longest = min(shortest, p), max(longest, p)
	}
	if shortest < backoffFirst || longest > backoffLongest || shortest > 5*time.Second || longest < 50*time.Second {
		t.Errorf("pauses from %s to %s", shortest, longest)
	}
}

func TestFiveCrashesInTenMinutesQuarantineAndTimeOrAPersonResets(t *testing.T) {
	for _, person := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeLauncher{}
			a := supervised(t, f, nil)
			for crash := 1; crash <= crashLimit; crash++ {
				f.newest().die(errors.New("crash"))
				if crash < crashLimit {
					time.Sleep(backoffLongest)
				}
				synctest.Wait()
			}
			if a.State() != Quarantined || f.launches() != crashLimit {
				t.Fatalf("state %s after %d launches", a.State(), f.launches())
			}
			time.Sleep(time.Minute)
			_, err := a.Send(t.Context(), channel.Attempt{})
			var notSent *channel.NotSentError
			if !errors.As(err, &notSent) || notSent.RetryAfter != DefaultQuarantineTime-time.Minute || notSent.Configuration {
				t.Errorf("send: %v (%+v)", err, notSent)
			}
			if person {
				a.Reset()
			} else {
				time.Sleep(DefaultQuarantineTime)
			}
			synctest.Wait()
			if a.State() != Ready || f.launches() != crashLimit+1 {
				t.Errorf("state %s after %d launches", a.State(), f.launches())
			}
			f.newest().die(errors.New("crash"))
			synctest.Wait()
			if a.State() != Backoff {
				t.Errorf("state %s: the crashes before the quarantine still count", a.State())
			}
		})
	}
}

func TestSlowCrashesNeverQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLauncher{}
		a := supervised(t, f, nil)
		for range 3 * crashLimit {
			time.Sleep(crashWindow / (crashLimit - 1))
			f.newest().die(errors.New("crash"))
			time.Sleep(backoffLongest)
			synctest.Wait()
			if a.State() != Ready {
				t.Fatalf("state %s", a.State())
			}
		}
	})
}

func TestFaultThatARetryCannotMendQuarantinesAtOnce(t *testing.T) {
	for name, prepare := range map[string]func(*fakeLife) error{
		"permanent": func(l *fakeLife) error {
			if l.number > 1 {
				return &LaunchError{Permanent: true, Err: ErrWrongChecksum}
			}
			return nil
		},
		"weaker sheet": func(l *fakeLife) error {
			l.claims.Begin = l.number == 1
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeLauncher{prepare: prepare}
				a := supervised(t, f, nil)
				f.newest().die(errors.New("crash"))
				time.Sleep(backoffLongest)
				synctest.Wait()
				if a.State() != Quarantined || f.launches() != 2 {
					t.Errorf("state %s after %d launches", a.State(), f.launches())
				}
				if l := f.newest(); l.number == 2 && !slices.Contains(l.ends, "kill") {
					t.Error("the refused generation still runs")
				}
				_, err := a.Send(t.Context(), channel.Attempt{})
				var notSent *channel.NotSentError
				if !errors.As(err, &notSent) || !notSent.Configuration {
					t.Errorf("send: %v", err)
				}
			})
		})
	}
}

func TestSilentAdapterIsKilledAndAnUnwellOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLauncher{prepare: func(l *fakeLife) error {
			l.pulse = func() (bool, error) { return l.number > 1, errors.New("no pulse") }
			return nil
		}}
		a := supervised(t, f, nil)
		first := f.newest()
		time.Sleep(DefaultHealthInterval*healthFailures - time.Second)
		synctest.Wait()
		if a.State() != Ready {
			t.Fatalf("state %s before the last check", a.State())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(first.ends, []string{"kill"}) {
			t.Fatalf("ends %v, want one kill", first.ends)
		}
		time.Sleep(backoffLongest)
		synctest.Wait()
		time.Sleep(100 * DefaultHealthInterval)
		synctest.Wait()
		if a.State() != Ready || f.launches() != 2 {
			t.Errorf("state %s after %d launches: an adapter that answers was killed", a.State(), f.launches())
		}
	})
}

func TestCloseRefusesNewCallsThenWaitsThenStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := make(chan struct{})
		f := &fakeLauncher{prepare: func(l *fakeLife) error { l.inside = inside; return nil }}
		a := supervised(t, f, nil)
		answered := make(chan error, 1)
		go func() { _, err := a.Send(context.Background(), channel.Attempt{}); answered <- err }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- a.Close(context.Background()) }()
		synctest.Wait()
		if a.State() != Draining || len(f.newest().ends) != 0 {
			t.Fatalf("state %s, ends %v", a.State(), f.newest().ends)
		}
		if _, err := a.Send(t.Context(), channel.Attempt{}); !channel.ProvenNotSent(err) {
			t.Errorf("send while draining: %v", err)
		}
		close(inside)
		if err := errors.Join(<-answered, <-closed); err != nil {
			t.Error(err)
		}
		if a.State() != Stopped || !slices.Equal(f.newest().ends, []string{"stop"}) {
			t.Errorf("state %s, ends %v", a.State(), f.newest().ends)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestCloseCutsCallsWhenTheGracePeriodIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := make(chan struct{})
		f := &fakeLauncher{prepare: func(l *fakeLife) error { l.inside = inside; return nil }}
		a := supervised(t, f, nil)
		answered := make(chan struct{})
		go func() { defer close(answered); _, _ = a.Send(context.Background(), channel.Attempt{}) }()
		synctest.Wait()
		start := time.Now()
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != DefaultGracePeriod {
			t.Errorf("close took %s, want %s", took, DefaultGracePeriod)
		}
		close(inside)
		<-answered
	})
}

func TestCloseWhileRestingEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLauncher{}
		a := supervised(t, f, nil)
		f.newest().die(errors.New("crash"))
		synctest.Wait()
		start := time.Now()
		if err := a.Close(context.Background()); err != nil || time.Since(start) != 0 || a.State() != Stopped {
			t.Errorf("close: %v after %s, state %s", err, time.Since(start), a.State())
		}
	})
}

func TestSheetMayGetStrongerButNotWeaker(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*channel.Sheet)
		weaker bool
	}{
		{"same", func(*channel.Sheet) {}, false},
		{"other kind", func(s *channel.Sheet) { s.Kind = "other" }, true},
		{"other token kind", func(s *channel.Sheet) { s.Token = channel.TokenAllocated }, true},
		{"replay for ever", func(s *channel.Sheet) { s.Replay = channel.ReplayForEver }, false},
		{"replay never", func(s *channel.Sheet) { s.Replay = channel.ReplayNever }, true},
		{"shorter token life", func(s *channel.Sheet) { s.TokenLife /= 2 }, true},
		{"heuristic probe", func(s *channel.Sheet) { s.Probe = channel.ProbeHeuristic }, true},
		{"no negative proof", func(s *channel.Sheet) { s.NegativeProof = false }, true},
		{"no begin", func(s *channel.Sheet) { s.Begin = false }, true},
		{"longer settle time", func(s *channel.Sheet) { s.SettleTime *= 2 }, true},
		{"nearer probe horizon", func(s *channel.Sheet) { s.ProbeHorizon = channel.Duration(time.Hour) }, true},
		{"unknown replay", func(s *channel.Sheet) { s.Replay = "always, honest" }, true},
		{"newer version", func(s *channel.Sheet) { s.Version = "2" }, false},
	} {
		now := strongSheet()
		row.change(&now)
		if err := notWeaker(strongSheet(), now); (err != nil) != row.weaker {
			t.Errorf("%s: %v, want weaker=%t", row.name, err, row.weaker)
		}
	}
}
