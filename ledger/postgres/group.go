package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

const (
	// maxGroup is how many moves share one transaction, and so one flush to the disk.
	maxGroup = 64
	// groupsAtOnce is how many such transactions run side by side: one is flushed while the next is read. Moves that find all of them
	// busy wait for the next one together, so groups grow with the load and a single move never waits for company.
	groupsAtOnce = 2
)

// groupLockTimeout bounds what SKIP LOCKED does not: the lock of a schema change, a unique index that an open transaction writes to. It is for
// one transaction.
const groupLockTimeout = `SELECT set_config('lock_timeout', '100ms', true)`

// mover joins moves of different intents that are asked for at the same time into one transaction. There is no goroutine of its own:
// whoever gets a turn works for all that wait. What cannot be done without waiting for somebody else (a row or a lane that is
// locked), and whatever shared a transaction that failed, is made alone: nobody is delayed or failed by a neighbour.
type mover struct {
	l       *Ledger
	turns   chan struct{}
	mu      sync.Mutex
	waiting []*moveJob
}

func newMover(l *Ledger) *mover { return &mover{l: l, turns: make(chan struct{}, groupsAtOnce)} }

type moveJob struct {
	ctx    context.Context
	key    ledger.Key
	move   ledger.Move
	result ledger.Result
	err    error
	alone  bool          // it must be made in a transaction of its own
	done   chan struct{} // closed when result, err or alone is there
}

// do makes the move and returns after it is durable.
func (m *mover) do(ctx context.Context, k ledger.Key, move ledger.Move) (ledger.Result, error) {
	if ctx.Err() != nil { // whoever gave up has nothing written
		return ledger.Result{}, fmt.Errorf("move %s: %w", k, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.l.timeout, errTimeout) // in company and alone together
	defer cancel()
	j := &moveJob{ctx: ctx, key: k, move: move, done: make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, j)
	m.mu.Unlock()
	for {
		select {
		case <-j.done:
			return m.answer(j)
		case m.turns <- struct{}{}:
			m.work()
		case <-ctx.Done():
			if m.withdraw(j) {
				return ledger.Result{}, fmt.Errorf("wait for a turn to write: %w", context.Cause(ctx))
			}
			<-j.done // it is being written, within the statement time-out
			return m.answer(j)
		}
	}
}

// answer is called by the job's own caller, who makes alone what could not be made in company.
func (m *mover) answer(j *moveJob) (ledger.Result, error) {
	if j.alone {
		return m.l.moveAlone(j.ctx, j.key, j.move)
	}
	return j.result, j.err
}

func (m *mover) withdraw(j *moveJob) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.waiting, j)
	if at < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	return true
}

// work makes the moves that wait and gives the turn back. Where a function that runs in the transaction panics, or ends its goroutine, what
// was tried counts for nothing: each move is made by its own caller, and whoever meets it again there meets it alone.
func (m *mover) work() {
	jobs, whole := m.take(), false
	defer func() {
		if !whole {
			_ = recover()
			for _, j := range jobs {
				j.alone = true
			}
		}
		<-m.turns
		for _, j := range jobs {
			close(j.done)
		}
	}()
	if len(jobs) > 0 {
		m.makeAll(jobs)
	}
	whole = true
}

func (m *mover) makeAll(jobs []*moveJob) {
	committing, err := m.l.moveGroup(jobs)
	switch {
	case err == nil:
	case lostAnswer(err, committing):
		for _, j := range jobs {
			if !j.alone && j.err == nil {
				j.err = ownError(err, committing)
			}
		}
	default: // nothing was written
		for _, j := range jobs {
			j.alone = true
		}
	}
}

// take takes waiting jobs, at most one of each intent. Those whose caller gave up are withdrawn by it.
func (m *mover) take() []*moveJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	var jobs, rest []*moveJob
	seen := map[ledger.Key]bool{}
	for _, j := range m.waiting {
		if len(jobs) == maxGroup || seen[j.key] || j.ctx.Err() != nil {
			rest = append(rest, j)
			continue
		}
		seen[j.key] = true
		jobs = append(jobs, j)
	}
	m.waiting = rest
	return jobs
}

// moveGroup makes the moves in one transaction. committing says that COMMIT was sent: then an error does not say that nothing was written.
func (l *Ledger) moveGroup(jobs []*moveJob) (committing bool, err error) {
	slices.SortFunc(jobs, func(a, b *moveJob) int { // everybody locks in this order
		return cmp.Or(cmp.Compare(a.key.RunID, b.key.RunID), cmp.Compare(a.key.EffectKey, b.key.EffectKey))
	})
	// Not a caller's context: one that gives up must not take the others with it.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(jobs[0].ctx), l.timeout, errTimeout)
	defer cancel()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	s := &session{l: l, conn: conn, batch: &pgx.Batch{}}
	defer s.end()
	err = s.moveAll(ctx, jobs)
	return s.committing, err
}

func (s *session) moveAll(ctx context.Context, jobs []*moveJob) error {
	rows, err := s.loadFree(ctx, jobs)
	if err != nil {
		return err
	}
	changes := make([]ledger.Change, len(jobs))
	evidence := map[[2]string]bool{}
	lanes := map[string]bool{}
	for n, j := range jobs {
		if j.alone = rows[n] == nil; j.alone {
			continue
		}
		changes[n], j.err = ledger.Apply(rows[n].snap, j.move)
		j.result = changes[n].Result
		if id := [2]string{rows[n].snap.Intent.Channel, changes[n].EvidenceID}; j.err == nil && id[1] != "" {
			j.alone = evidence[id] // which of two comes first is looked for under the lock
			evidence[id] = true
		}
		if lane := rows[n].snap.Intent.Lane; lane != "" && (changes[n].EndTurn || changes[n].RaiseLane) {
			lanes[lane] = true
		}
	}
	if err := s.lockFreeLanes(ctx, lanes); err != nil {
		return err
	}
	w := &writer{l: s.l}
	for n, j := range jobs {
		if lane := lanesOf(rows[n], changes[n]); lane != "" && !lanes[lane] {
			j.alone = true // a claimer's open transaction holds the lane
		}
		if j.alone || j.err != nil {
			continue
		}
		if err := w.add(*rows[n], changes[n]); err != nil {
			return err
		}
	}
	w.queue(s)
	if s.batch.Len() == 0 && slices.ContainsFunc(jobs, func(j *moveJob) bool { return !j.alone && j.err == nil }) {
		s.queue(syncCommit)
	}
	if s.batch.Len() == 0 {
		return nil
	}
	return s.commit(ctx)
}

func lanesOf(row *locked, c ledger.Change) string {
	if row != nil && (c.EndTurn || c.RaiseLane) {
		return row.snap.Intent.Lane
	}
	return ""
}

// loadFree locks the rows that nobody else holds and reads all that their moves need, in one round trip. A row that is missing or held is
// nil.
func (s *session) loadFree(ctx context.Context, jobs []*moveJob) ([]*locked, error) {
	keys := make([]ledger.Key, len(jobs))
	for n, j := range jobs {
		keys[n] = j.key
	}
	found := map[ledger.Key]*intentRow{}
	var beside []around
	runs, names := split(keys)
	s.queue(groupLockTimeout)
	s.queue(s.l.sql.lockGroup, runs, names).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			row := &intentRow{}
			if err := rows.Scan(row.targets()...); err != nil {
				return err
			}
			if err := row.finish(); err != nil {
				return err
			}
			found[row.intent.Key] = row
		}
		return rows.Err()
	})
	s.queueAround(keys, &beside)
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	if len(beside) != len(keys) {
		return nil, errors.New("read what stands beside the intents: rows are missing")
	}
	out := make([]*locked, len(keys))
	for n, k := range keys {
		if row := found[k]; row != nil {
			held := s.l.snapshot(k, row, beside[n])
			out[n] = &held
		}
	}
	return out, nil
}

// lockFreeLanes locks the lanes that nobody holds; the others become false.
func (s *session) lockFreeLanes(ctx context.Context, lanes map[string]bool) error {
	if len(lanes) == 0 {
		return nil
	}
	names := make([]string, 0, len(lanes))
	for lane := range lanes {
		names = append(names, lane)
		lanes[lane] = false
	}
	slices.Sort(names)
	s.queue(s.l.sql.pickLanes, names).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var name string
			var turn, number int64
			if err := rows.Scan(&name, &turn, &number); err != nil {
				return err
			}
			lanes[name] = true
		}
		return rows.Err()
	})
	return s.flush(ctx)
}
