package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

// callerTx is what [Tx] seals.
type callerTx struct{ tx *sql.Tx }

// Tx makes the handle of a caller's own transaction, which must be on the ledger's own file, on a connection of modernc.org/sqlite. Begin it
// immediately (_txlock=immediate), or claim before anything is read in it: a transaction that reads first and writes later fails
// with [ledger.ErrRetryTransaction] as soon as another process writes between.
func Tx(tx *sql.Tx) ledger.Tx { return ledger.SealTx(callerTx{tx}) }

// InTx implements [ledger.Claims]. f must not call methods of the ledger that write, but those that take tx: there is one writer, and
// f has it.
func (l *Ledger) InTx(ctx context.Context, f func(tx ledger.Tx) error) error {
	return l.writer.inTx(ctx, func(_ context.Context, s *session) error { return f(ledger.SealTx(s)) })
}

// within runs f in the transaction of the handle.
func (l *Ledger) within(ctx context.Context, tx ledger.Tx, f func(s *session) error) error {
	switch h := tx.Handle().(type) {
	case *session:
		switch {
		case h.l != l:
			return errors.New("the transaction was begun by another ledger's InTx")
		case h.over:
			return errors.New("the transaction of InTx has ended; its handle cannot be kept")
		}
		return f(h)
	case callerTx:
		if h.tx == nil {
			return errors.New("sqlite.Tx was given no transaction")
		}
		return l.withinCaller(ctx, h.tx, f)
	}
	return fmt.Errorf("the ledger is SQLite and cannot use a transaction of %T; make the handle with sqlite.Tx", tx.Handle())
}

// withinCaller runs f in a caller's transaction. The write lock is taken before anything is read, so that what is read stays true.
func (l *Ledger) withinCaller(ctx context.Context, tx *sql.Tx, f func(s *session) error) (err error) {
	c := callerStatements{tx: tx, stmts: map[string]*sql.Stmt{}}
	defer func() {
		err = callerError(errors.Join(err, c.close()))
	}()
	s := &session{l: l, prepare: c.prepare, caller: true}
	if _, err := s.exec(ctx, "UPDATE ledger_clock_high SET high_us = high_us WHERE 0"); err != nil {
		return fmt.Errorf("take the write lock in the caller's transaction: %w", err)
	}
	var id string
	if err := s.row(ctx, "SELECT ledger_id FROM ledger_epochs ORDER BY epoch LIMIT 1", nil, &id); err != nil {
		return fmt.Errorf("find the ledger in the caller's transaction: %w", err)
	}
	if id != l.id {
		return fmt.Errorf("the caller's transaction is on the file of ledger %s: %w", id, ledger.ErrOtherLedger)
	}
	return f(s)
}

// callerStatements are statements prepared in a caller's transaction.
type callerStatements struct {
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
}

func (c *callerStatements) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.tx.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *callerStatements) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
