package sqlite_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// counter sees the statements that a ledger runs, and can make one fail after it has worked.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
	lie    string // the next run of this statement works and reports an error
}

var errLie = errors.New("the connection was lost")

func (c *counter) connector(base driver.Connector) driver.Connector {
	return countingConnector{base, c}
}

func (c *counter) count(query string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[query]
}

func (c *counter) lieAbout(query string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lie = query
}

func (c *counter) ran(query string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[query]++
	if c.lie == query {
		c.lie = ""
		return errLie
	}
	return nil
}

type countingConnector struct {
	driver.Connector
	c *counter
}

func (c countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.c}, nil
}

type countingConn struct {
	driver.Conn
	c *counter
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return countingStmt{s, query, c.c}, nil
}

type countingStmt struct {
	driver.Stmt
	query string
	c     *counter
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil {
		err = s.c.ran(s.query)
	}
	return r, err
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
