package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// maxTries bounds how often a transaction of the ledger's own is run; the call's time bounds it, too.
	maxTries = 20
	// firstBackoff doubles with every try, up to lastBackoff, and is spread evenly between half and all of it.
	firstBackoff = 2 * time.Millisecond
	lastBackoff  = 200 * time.Millisecond
	// rollbackTime is how long a rollback may take before the connection is dropped, which rolls back as well.
	rollbackTime = time.Second
)

var errLeaseLost = fence.ErrLost

// session is one transaction of the ledger's own. Statements are queued and sent together: a flush is one round trip.
type session struct {
	l          *Ledger
	conn       *pgxpool.Conn
	batch      *pgx.Batch
	began      bool
	committing bool // COMMIT was sent: an error does not say that nothing was written
	done       bool
}

// settings holds for one transaction, so that a transaction pooler may stand between. A weaker synchronous_commit is raised, a stronger
// one kept. A plan that has to scan all the same counts as very dear, which would have it compiled each time, for half a second: no
// compiler. Every statement of the hot path has its index: plans are kept, and do not turn into scans where statistics are stale.
const settings = `SELECT set_config('synchronous_commit',
CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

const begin = `BEGIN ISOLATION LEVEL READ COMMITTED`

// transact runs f in a transaction of the ledger's own, again while the database asks for it, within the statement time-out. f ends it with
// [session.commit]; if f returns without, it is rolled back.
func (l *Ledger) transact(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	return l.transactEntered(ctx, f)
}

// transactEntered is transact for a call that has entered.
func (l *Ledger) transactEntered(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, errTimeout)
	defer cancel()
	return l.retry(ctx, func(ctx context.Context) (bool, error) {
		conn, err := l.pool.Acquire(ctx)
		if err != nil {
			return false, err
		}
		s := &session{l: l, conn: conn, batch: &pgx.Batch{}}
		defer s.end()
		err = f(ctx, s)
		return s.committing && !s.done, err
	})
}

var errTimeout error = ledger.Unavailable("the ledger did not answer within the statement time-out")

// callerFault is an error of the function that runs in the transaction.
type callerFault struct{ err error }

func (f *callerFault) Error() string { return f.err.Error() }
func (f *callerFault) Unwrap() error { return f.err }

// retry runs f again while that is called for. f says whether COMMIT was sent.
func (l *Ledger) retry(ctx context.Context, f func(ctx context.Context) (committing bool, err error)) error {
	wait := firstBackoff
	for try := 1; ; try++ {
		committing, err := f(ctx)
		if err == nil {
			return nil
		}
		var own *callerFault
		if errors.As(err, &own) {
			return own.err
		}
		if sqlState(err) == stateReadOnly && l.owned {
			l.pool.Reset() // the next connection looks for the primary again
		}
		if ended(err) && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		if ctx.Err() != nil || try == maxTries || !again(err, committing) {
			return ownError(err, committing)
		}
		pause := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ownError(err, committing)
		case <-pause.C:
		}
		wait = min(2*wait, lastBackoff)
	}
}

// queue adds a statement to the next flush.
func (s *session) queue(sql string, args ...any) *pgx.QueuedQuery {
	if !s.began {
		s.began = true
		s.batch.Queue(begin)
		s.batch.Queue(settings, s.l.timeoutText)
	}
	return s.batch.Queue(sql, args...)
}

// put is queue for statements whose answer nobody reads.
func (s *session) put(sql string, args ...any) { s.queue(sql, args...) }

// flush sends what is queued and reads the answers.
func (s *session) flush(ctx context.Context) error {
	b := s.batch
	s.batch = &pgx.Batch{}
	if b.Len() == 0 {
		return nil
	}
	return s.conn.SendBatch(ctx, b).Close()
}

// commit sends what is queued together with COMMIT.
func (s *session) commit(ctx context.Context) error {
	if !s.began {
		return nil
	}
	watch := s.l.notices.of(s.conn.Conn().PgConn())
	defer watch.drop()
	s.batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	})
	s.committing = true
	if err := s.flush(ctx); err != nil {
		if sqlState(err) == stateUnique && constraintOf(err) == "evidence_ids_pkey" {
			return fmt.Errorf("%w: %w", errEvidenceClash, err)
		}
		return err
	}
	s.done = true
	return watch.check()
}

// end rolls back what was not committed and gives the connection back.
func (s *session) end() {
	defer s.conn.Release()
	if s.done || !s.began || s.conn.Conn().IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	if _, err := s.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = s.conn.Conn().Close(ctx) // the pool drops a closed connection, and the server rolls back
	}
}

func pgError(err error) (*pgconn.PgError, bool) {
	var e *pgconn.PgError
	ok := errors.As(err, &e)
	return e, ok
}

// connectionBroke reports whether err is the network's and not the database's answer.
func connectionBroke(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
