package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlworks/pawl/fence"
)

const ttl = 30 * time.Second

// storage is one run's lease in memory. Its clock is the test's.
type storage struct {
	mu       sync.Mutex
	number   int64
	expires  time.Time
	renewals []time.Time
	released []fence.Status
	// onRenew, onRelease, where they are set, answer instead.
	onRenew   func(ctx context.Context) error
	onRelease func() error
}

func (s *storage) Acquire(_ context.Context, runID string, o fence.AcquireOptions) (fence.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.expires) {
		return fence.Lease{}, fence.ErrHeld
	}
	s.number++
	s.expires = time.Now().Add(o.TTL)
	return fence.Lease{RunID: runID, Fence: fence.Fence{Epoch: 1, Number: s.number, Owner: o.Owner}, ExpiresAt: s.expires, Remaining: o.TTL}, nil
}

func (s *storage) Renew(ctx context.Context, l fence.Lease, ttl time.Duration) (fence.Lease, error) {
	if s.onRenew != nil {
		if err := s.onRenew(ctx); err != nil {
			return l, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Fence.Number != s.number || !time.Now().Before(s.expires) {
		return l, fence.ErrLost
	}
	s.renewals = append(s.renewals, time.Now())
	s.expires = time.Now().Add(ttl)
	l.ExpiresAt, l.Remaining = s.expires, ttl
	return l, nil
}

func (s *storage) Release(_ context.Context, l fence.Lease, to fence.Status) error {
	if s.onRelease != nil {
		if err := s.onRelease(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Fence.Number != s.number {
		return fence.ErrLost
	}
	s.expires = time.Time{}
	s.released = append(s.released, to)
	return nil
}

// renewed returns when the lease was renewed, and its end.
func (s *storage) renewed() (at []time.Time, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.renewals...), s.expires
}

func keep(t *testing.T, ctx context.Context, s *storage) *fence.Keeper {
	t.Helper()
	k, err := fence.Keep(ctx, s, "run", fence.AcquireOptions{Owner: "worker", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeeperRenewsAtAThirdOfTheTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		began := time.Now()
		k := keep(t, t.Context(), s)
		time.Sleep(10*ttl + time.Second)
		if err := k.Context().Err(); err != nil {
			t.Fatalf("after ten times to live: %v", context.Cause(k.Context()))
		}
		at, expires := s.renewed()
		if len(at) != 30 || at[0].Sub(began) != ttl/3 {
			t.Errorf("renewals at %v; want 30, the first after %s", at, ttl/3)
		}
		if got := k.Lease().ExpiresAt; !got.Equal(expires) {
			t.Errorf("the lease that is handed out ends at %s, want %s", got, expires)
		}
		if err := k.Release(t.Context(), fence.StatusCompleted); err != nil {
			t.Fatal(err)
		}
		if k.Context().Err() == nil {
			t.Error("the context goes on after the release")
		}
		if err := k.Release(t.Context(), fence.StatusFailed); err != nil || len(s.released) != 1 || s.released[0] != fence.StatusCompleted {
			t.Errorf("released %v, %v; want once, as completed", s.released, err)
		}
	})
}

// TestOwnDeadlineCountsFromBeforeTheQuestion has an answer that takes long: the storage's clock may have been read at its beginning.
func TestOwnDeadlineCountsFromBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 4 * time.Second
		s := &storage{onRenew: func(context.Context) error { time.Sleep(slow); return nil }}
		began := time.Now()
		k := keep(t, t.Context(), s)
		if got := k.Deadline().Sub(began); got != ttl {
			t.Errorf("after the acquire: %s, want %s", got, ttl)
		}
		time.Sleep(ttl/3 + slow + time.Second)
		if got := k.Deadline().Sub(began); got != ttl/3+ttl {
			t.Errorf("after the renewal: %s, want %s: counted from before it", got, ttl/3+ttl)
		}
		if left := k.Lease().ExpiresAt.Sub(k.Deadline()); left != slow {
			t.Errorf("the worker stops %s before the storage's expiry, want %s", left, slow)
		}
		if err := k.Release(t.Context(), fence.StatusReady); err != nil {
			t.Fatal(err)
		}
	})
}

func TestContextEndsWhenTheLeaseIsLost(t *testing.T) {
	for name, answer := range map[string]error{"lost": fence.ErrLost, "the run has ended": fence.ErrEnded, "quarantined": fence.ErrQuarantined} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storage{onRenew: func(context.Context) error { return answer }}
				began := time.Now()
				k := keep(t, t.Context(), s)
				<-k.Context().Done()
				if cause := context.Cause(k.Context()); !errors.Is(cause, fence.ErrLost) || !errors.Is(cause, answer) {
					t.Errorf("cause is %v, want ErrLost and %v", cause, answer)
				}
				if took := time.Since(began); took != ttl/3 {
					t.Errorf("ended after %s, want %s: at the first renewal", took, ttl/3)
				}
				s.mu.Lock()
				s.number++ // another worker has it
				s.mu.Unlock()
				if err := k.Release(t.Context(), fence.StatusCompleted); !errors.Is(err, fence.ErrLost) {
					t.Errorf("release: %v, want ErrLost", err)
				}
			})
		})
	}
}

// TestContextEndsAtTheOwnDeadline has storages that never answer, each in its way.
func TestContextEndsAtTheOwnDeadline(t *testing.T) {
	for name, onRenew := range map[string]func(context.Context) error{
		"refuses connections":  func(context.Context) error { return errors.New("connection refused") },
		"hangs":                func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"hangs, past its time": func(ctx context.Context) error { time.Sleep(2 * ttl); return errors.New("reset by peer") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storage{onRenew: onRenew}
				began := time.Now()
				k := keep(t, t.Context(), s)
				<-k.Context().Done()
				if took := time.Since(began); took != ttl {
					t.Errorf("ended after %s, want %s", took, ttl)
				}
				if cause := context.Cause(k.Context()); !errors.Is(cause, fence.ErrLost) {
					t.Errorf("cause is %v, want ErrLost", cause)
				}
				_ = k.Release(t.Context(), fence.StatusReady)
			})
		})
	}
}

func TestStorageThatIsAwayForAWhileCostsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := &storage{}
		s.onRenew = func(context.Context) error {
			if tries++; tries <= 5 {
				return errors.New("connection refused")
			}
			return nil
		}
		k := keep(t, t.Context(), s)
		time.Sleep(3 * ttl)
		if err := k.Context().Err(); err != nil {
			t.Fatalf("ended: %v", context.Cause(k.Context()))
		}
		if at, _ := s.renewed(); len(at) == 0 {
			t.Fatal("never renewed")
		}
		if err := k.Release(t.Context(), fence.StatusReady); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReleaseWaitsForTheRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		answered := false
		s.onRenew = func(context.Context) error { time.Sleep(time.Second); answered = true; return nil }
		s.onRelease = func() error {
			if !answered {
				t.Error("released while a renewal was under way")
			}
			return nil
		}
		k := keep(t, t.Context(), s)
		time.Sleep(ttl/3 + time.Millisecond)
		if err := k.Release(t.Context(), fence.StatusReady); err != nil {
			t.Fatal(err)
		}
		if at, _ := s.renewed(); len(at) != 1 {
			t.Errorf("%d renewals, want 1", len(at))
		}
		time.Sleep(ttl)
		if at, _ := s.renewed(); len(at) != 1 {
			t.Errorf("%d renewals after the release", len(at)-1)
		}
	})
}

func TestReleaseThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 1
		s := &storage{onRelease: func() error {
			if fails--; fails >= 0 {
				return errors.New("connection refused")
			}
			return nil
		}}
		k := keep(t, t.Context(), s)
		if err := k.Release(t.Context(), fence.StatusCompleted); err == nil {
			t.Error("the first release told no error")
		}
		if err := k.Release(t.Context(), fence.StatusCompleted); err != nil || len(s.released) != 1 {
			t.Errorf("the second release: %v, released %v", err, s.released)
		}
	})
}

func TestEndOfTheCallersContextEndsTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &storage{}
		k := keep(t, ctx, s)
		cancel()
		synctest.Wait()
		if cause := context.Cause(k.Context()); !errors.Is(cause, context.Canceled) || errors.Is(cause, fence.ErrLost) {
			t.Errorf("cause is %v, want canceled", cause)
		}
		time.Sleep(2 * ttl)
		if at, _ := s.renewed(); len(at) != 0 {
			t.Errorf("%d renewals after the end", len(at))
		}
		if err := k.Release(t.Context(), fence.StatusReady); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

func TestKeepTellsWhyThereIsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		k := keep(t, t.Context(), s)
		if _, err := fence.Keep(t.Context(), s, "run", fence.AcquireOptions{Owner: "other", TTL: ttl}); !errors.Is(err, fence.ErrHeld) {
			t.Errorf("a second worker: %v, want ErrHeld", err)
		}
		if _, err := fence.Keep(t.Context(), s, "run", fence.AcquireOptions{Owner: "other", TTL: time.Microsecond}); err == nil || errors.Is(err, fence.ErrHeld) {
			t.Errorf("a time to live that cannot be kept: %v", err)
		}
		if err := k.Release(t.Context(), fence.StatusReady); err != nil {
			t.Fatal(err)
		}
		again := keep(t, t.Context(), s)
		if again.Lease().Fence.Number != 2 {
			t.Errorf("number %d after a release, want 2", again.Lease().Fence.Number)
		}
		if err := again.Release(t.Context(), fence.StatusCompleted); err != nil {
			t.Fatal(err)
		}
	})
}
