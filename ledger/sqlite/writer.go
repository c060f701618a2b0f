package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

const (
	// maxBatch is how many jobs share one transaction, and so one flush to the disk.
	maxBatch = 64
	// pollBusy is how long a writer waits, on average, before it asks again for a lock that another process holds.
	pollBusy = 2 * time.Millisecond
)

// errTooBusy says that the write lock could not be had in time. Nothing was written.
var errTooBusy error = ledger.Unavailable("the ledger's file is busy: its write lock could not be had in time; is another program holding a transaction open?")

// writer is the one connection that writes. SQLite lets one transaction write at a time, so jobs that wait share the next one: each
// in a savepoint of its own, all made durable by one flush. There is no goroutine: whoever holds the turn works for all.
type writer struct {
	l       *Ledger
	turn    chan struct{} // holds one value while somebody writes
	conn    connection
	mu      sync.Mutex
	waiting []*job
	closed  bool
}

// do runs a job in a transaction of ours and returns after it is durable. The job may run more than once.
func (w *writer) do(ctx context.Context, run func(ctx context.Context, s *session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{ctx: ctx, run: run, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	w.waiting = append(w.waiting, j)
	w.mu.Unlock()
	limit := time.NewTimer(w.l.timeout)
	defer limit.Stop()
	for {
		select {
		case <-j.done:
			return j.result()
		case w.turn <- struct{}{}:
			w.workOnce()
		case <-ctx.Done():
			if w.withdraw(j) {
				return ctx.Err()
			}
			<-j.done // it is being written: the answer is on its way
			return j.result()
		case <-limit.C:
			if w.withdraw(j) {
				return errTooBusy
			}
		}
	}
}

// begin takes the write lock at once, because a transaction that reads first and writes later fails among several processes.
func (w *writer) begin(ctx context.Context) (*session, error) {
	give := time.Now().Add(w.l.timeout)
	for {
		if err := w.conn.open(ctx); err != nil {
			return nil, err
		}
		_, err := w.conn.exec(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return &session{l: w.l, prepare: w.conn.prepare, reserved: w.l.clock.until}, nil
		}
		if !busy(err) {
			w.conn.drop()
			return nil, fmt.Errorf("begin: %w", err)
		}
		if time.Now().After(give) {
			return nil, fmt.Errorf("%w: %w", errTooBusy, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollBusy/2 + rand.N(pollBusy)):
		}
	}
}

// commit makes the transaction durable. After an error it is not known whether it did: callers ask again, which is harmless.
func (w *writer) commit(s *session) error {
	s.over = true
	if _, err := w.conn.exec(context.Background(), "COMMIT"); err != nil {
		w.conn.drop()
		return fmt.Errorf("commit: %w", err)
	}
	w.l.clock.until = s.reserved
	return nil
}

// alone runs f in a transaction of its own, on the caller's goroutine.
func (w *writer) alone(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	limit := time.NewTimer(w.l.timeout)
	defer limit.Stop()
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return errTooBusy
	}
	defer func() { <-w.turn }()
	if w.isClosed() {
		return errClosed
	}
	s, err := w.begin(ctx)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		s.over = true
		if !done { // an error, a panic, or the goroutine's end
			w.abort()
		}
	}()
	if err := f(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done = true
	return w.commit(s)
}

// inTx is alone, again while the database asks for it.
func (w *writer) inTx(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	give := time.Now().Add(w.l.timeout)
	for {
		err := w.alone(ctx, f)
		if !errors.Is(err, ledger.ErrRetryTransaction) || time.Now().After(give) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollBusy/2 + rand.N(pollBusy)):
		}
	}
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// close waits for what is under way and refuses what comes.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	for { // jobs that were taken in before are done
		w.mu.Lock()
		n := len(w.waiting)
		w.mu.Unlock()
		if n == 0 {
			return w.conn.close()
		}
		w.work()
	}
}
