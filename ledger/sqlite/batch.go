package sqlite

import (
	"context"
	"errors"

	"github.com/pawlworks/pawl/ledger"
)

type job struct {
	ctx   context.Context
	run   func(ctx context.Context, s *session) error
	done  chan struct{}
	err   error
	panic any
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
var errAborted error = ledger.Unavailable("the transaction was given up: a function that ran in it ended its goroutine")

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
