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
var errTooBusy = errors.New("the ledger's file is busy: its write lock could not be had in time; is another program holding a transaction open?")

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

type job struct {
	ctx   context.Context
	run   func(ctx context.Context, s *session) error
	done  chan struct{}
	err   error
	panic any
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

// workOnce works for all and gives the turn back.
func (w *writer) workOnce() {
	defer func() { <-w.turn }()
	w.work()
}

func (j *job) result() error {
	if j.panic != nil {
		panic(j.panic)
	}
	return j.err
}

// withdraw takes a job back that nobody has begun.
func (w *writer) withdraw(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.waiting {
		if other == j {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// work takes the jobs that wait and runs them in one transaction. The caller holds the turn.
func (w *writer) work() {
	w.mu.Lock()
	n := min(len(w.waiting), maxBatch)
	batch := append([]*job(nil), w.waiting[:n]...)
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	w.mu.Unlock()
	if n == 0 {
		return
	}
	err := errAborted
	defer func() {
		if err != nil {
			w.abort()
		}
		for _, j := range batch {
			if err != nil && j.err == nil && j.panic == nil {
				j.err = err
			}
			close(j.done)
		}
	}()
	err = w.workOn(batch)
}

// errAborted is the answer to those who shared a transaction with a goroutine that ended in the middle of it.
var errAborted = errors.New("the transaction was given up: a function that ran in it ended its goroutine")

// workOn runs the jobs and makes them durable. Statements are short and are not cut; waiting for the lock is bounded.
func (w *writer) workOn(batch []*job) error {
	ctx := context.Background()
	if len(batch) == 1 {
		ctx = batch[0].ctx // nobody else waits for the lock
	}
	s, err := w.begin(ctx)
	if err != nil {
		return err
	}
	if len(batch) > 1 {
		if err := w.runAll(s, batch); err != nil {
			return err
		}
	} else if batch[0].protect(s); batch[0].failed() {
		return errAborted // nobody gets it: the one job has its own error
	}
	return w.commit(s)
}

// abort undoes what is open.
func (w *writer) abort() {
	if w.conn.conn == nil {
		return
	}
	if _, err := w.conn.exec(context.Background(), "ROLLBACK"); err != nil {
		w.conn.drop()
	}
}

// runAll runs each job so that its failure undoes only itself. An error is the whole transaction's.
func (w *writer) runAll(s *session, batch []*job) error {
	ctx := context.Background()
	for _, j := range batch {
		if j.err = j.ctx.Err(); j.err != nil {
			continue
		}
		if _, err := w.conn.exec(ctx, "SAVEPOINT job"); err != nil {
			return err
		}
		reserved := s.reserved
		j.protect(s)
		if j.failed() {
			s.reserved = reserved
			if _, err := w.conn.exec(ctx, "ROLLBACK TO job"); err != nil { // a full disk ends the whole transaction
				return errors.Join(j.err, err)
			}
		}
		if _, err := w.conn.exec(ctx, "RELEASE job"); err != nil {
			return err
		}
	}
	return nil
}

// protect keeps one caller's panic from ending another's job.
func (j *job) protect(s *session) {
	defer func() { j.panic = recover() }()
	j.err = j.run(context.WithoutCancel(j.ctx), s)
}

func (j *job) failed() bool { return j.err != nil || j.panic != nil }

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
