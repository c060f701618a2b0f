package crashtest

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// Connector marks a point before and after each statement, begin, commit and rollback of a database/sql driver. With
// CutAfter it also makes the answer of a commit disappear.
type Connector struct {
	driver.Connector
	Points  *Points
	cut     atomic.Int64
	commits atomic.Int64
}

// ErrCut is what a commit reports whose answer was cut.
var ErrCut = errors.New("crashtest: the commit's answer was cut")

// Connect wraps a connection.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{inner, c}, nil
}

// CutAfter lets the n-th commit from now on, over all connections, work but report an error.
func (c *Connector) CutAfter(n int64) { c.cut.Store(c.commits.Load() + n) }

// Commits returns how many commits there were.
func (c *Connector) Commits() int64 { return c.commits.Load() }

func (c *Connector) hit(name string) {
	if c.Points != nil {
		c.Points.Hit(name)
	}
}

// committed is called after a commit that worked: it may lose the answer.
func (c *Connector) committed() error {
	if c.commits.Add(1) == c.cut.Load() {
		return ErrCut
	}
	return nil
}

type conn struct {
	driver.Conn
	c *Connector
}

func (n *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	execer, ok := n.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	n.c.hit("before " + brief(query))
	r, err := execer.ExecContext(ctx, query, args)
	n.c.hit("after " + brief(query))
	if err == nil && isCommit(query) {
		err = n.c.committed()
	}
	return r, err
}

func (n *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := n.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	n.c.hit("before " + brief(query))
	r, err := queryer.QueryContext(ctx, query, args)
	n.c.hit("after " + brief(query))
	return r, err
}

func (n *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var inner driver.Stmt
	var err error
	if p, ok := n.Conn.(driver.ConnPrepareContext); ok {
		inner, err = p.PrepareContext(ctx, query)
	} else {
		inner, err = n.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{inner, n.c, query}, nil
}

func (n *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b, ok := n.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("crashtest: the driver cannot begin with a context")
	}
	n.c.hit("before begin")
	inner, err := b.BeginTx(ctx, o)
	n.c.hit("after begin")
	if err != nil {
		return nil, err
	}
	return &tx{inner, n.c}, nil
}

func (n *conn) ResetSession(ctx context.Context) error {
	if r, ok := n.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (n *conn) IsValid() bool {
	if v, ok := n.Conn.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

func (n *conn) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := n.Conn.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type tx struct {
	driver.Tx
	c *Connector
}

func (t *tx) Commit() error {
	t.c.hit("before commit")
	err := t.Tx.Commit()
	t.c.hit("after commit")
	if err == nil {
		err = t.c.committed()
	}
	return err
}

func (t *tx) Rollback() error {
	t.c.hit("before rollback")
	err := t.Tx.Rollback()
	t.c.hit("after rollback")
	return err
}

type stmt struct {
	driver.Stmt
	c     *Connector
	query string
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	execer, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("crashtest: the driver's statements take no context")
	}
	s.c.hit("before " + brief(s.query))
	r, err := execer.ExecContext(ctx, args)
	s.c.hit("after " + brief(s.query))
	if err == nil && isCommit(s.query) {
		err = s.c.committed()
	}
	return r, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.New("crashtest: the driver's statements take no context")
	}
	s.c.hit("before " + brief(s.query))
	r, err := queryer.QueryContext(ctx, args)
	s.c.hit("after " + brief(s.query))
	return r, err
}

func isCommit(query string) bool {
	b := brief(query)
	return len(b) >= 6 && (b[:6] == "COMMIT" || b[:6] == "commit")
}
