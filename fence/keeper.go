package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// renewalsInTTL is how often a lease is renewed within its time to live: one that fails can be tried again before the end.
	renewalsInTTL = 3
	// triesInRenewal is how often a renewal that failed is tried again before the next one would be due.
	triesInRenewal = 4
	// minKept is the shortest time to live that a few renewals fit into.
	minKept = 10 * time.Millisecond
)

// Leases is what a [Keeper] needs of a [Storage].
type Leases interface {
	Acquire(ctx context.Context, runID string, o AcquireOptions) (Lease, error)
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)
	Release(ctx context.Context, l Lease, to Status) error
}

// Keeper holds the lease of one run for one worker: it renews it in the background and tells the worker when it is gone. Make
// one with [Keep], work under [Keeper.Context], end with [Keeper.Release]. It is safe for concurrent use.
type Keeper struct {
	leases Leases
	ttl    time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the renewals have ended

	mu       sync.Mutex
	lease    Lease
	deadline time.Time // ours, earlier than the lease's: counted from before we asked
	expiry   *time.Timer

	release  sync.Mutex // one release at a time
	released bool
}

// Keep acquires the run's lease and keeps it: it is renewed after every third of the TTL until the Keeper is released, ctx ends or
// the lease is lost. The errors are those of [Storage.Acquire]. Release must be called in every case, also after ctx has ended.
func Keep(ctx context.Context, leases Leases, runID string, o AcquireOptions) (*Keeper, error) {
	if o.TTL < minKept {
		return nil, fmt.Errorf("keep the lease of run %s: ttl: %s is too short for its renewals; use at least %s, better 30s", runID, o.TTL, minKept)
	}
	before := time.Now()
	lease, err := leases.Acquire(ctx, runID, o)
	if err != nil {
		return nil, fmt.Errorf("keep the lease of run %s: %w", runID, err)
	}
	k := &Keeper{leases: leases, ttl: o.TTL, lease: lease, deadline: before.Add(lease.Remaining), done: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	k.expiry = time.AfterFunc(time.Until(k.deadline), k.expire)
	go func() {
		defer close(k.done)
		k.renew()
	}()
	return k, nil
}

// Context ends when the lease is lost or its time is over on the worker's own clock, or when the Keeper is released. Where the lease is
// gone, [context.Cause] is [ErrLost]. The storage decides all the same: whatever is written under the lease names it.
func (k *Keeper) Context() context.Context { return k.ctx }

// Lease is the lease as it was renewed last: what a claim names.
func (k *Keeper) Lease() Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease
}

// Deadline is when the worker must have stopped if no further renewal works, on its own clock.
func (k *Keeper) Deadline() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deadline
}

// Release ends the work: it ends the context, waits for a renewal under way, and hands the run back as ready, completed, failed or
// cancelled. A lease that is gone gives [ErrLost]. After another error it may be called again; after a success it does nothing.
func (k *Keeper) Release(ctx context.Context, to Status) error {
	k.release.Lock()
	defer k.release.Unlock()
	if k.released {
		return nil
	}
	k.cancel(context.Canceled)
	<-k.done
	if err := k.leases.Release(ctx, k.Lease(), to); err != nil {
		return fmt.Errorf("release the lease of run %s: %w", k.Lease().RunID, err)
	}
	k.released = true
	return nil
}

// renew renews until the context ends, which it may end itself.
func (k *Keeper) renew() {
	defer k.expiry.Stop()
	for wait := k.ttl / renewalsInTTL; sleep(k.ctx, wait); {
		switch err := k.renewOnce(); {
		case err == nil:
			wait = k.ttl / renewalsInTTL
		case gone(err):
			if !errors.Is(err, ErrLost) {
				err = fmt.Errorf("%w: %w", ErrLost, err)
			}
			k.cancel(fmt.Errorf("renew the lease of run %s: %w", k.Lease().RunID, err))
			return
		default: // the storage does not answer: again, until our own deadline ends the context
			wait = k.ttl / renewalsInTTL / triesInRenewal
		}
	}
}

func (k *Keeper) renewOnce() error {
	// A renewal under way when the worker releases is waited for, not cut: its answer says what to release. It ends with the lease.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(k.ctx), k.Deadline())
	defer cancel()
	before := time.Now()
	lease, err := k.leases.Renew(ctx, k.Lease(), k.ttl)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease, k.deadline = lease, before.Add(lease.Remaining)
	k.expiry.Reset(time.Until(k.deadline))
	return nil
}

// expire ends the context at our own deadline, whatever a renewal is waiting for.
func (k *Keeper) expire() {
	if time.Now().Before(k.Deadline()) { // renewed in this very moment
		return
	}
	k.cancel(fmt.Errorf("the lease of run %s was not renewed in time: %w", k.Lease().RunID, ErrLost))
}

// gone reports whether the storage has said that the lease is not ours: asking again would change nothing.
func gone(err error) bool {
	for _, answer := range []error{ErrLost, ErrNoRun, ErrEnded, ErrHeld, ErrQuarantined} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
