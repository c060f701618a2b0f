package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// connection is one connection with its prepared statements. It is used by one goroutine at a time.
type connection struct {
	db    *sql.DB
	conn  *sql.Conn // nil until first used, and after it was dropped
	stmts map[string]*sql.Stmt
}

// open makes sure that there is a connection.
func (c *connection) open(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open a connection: %w", err)
	}
	c.conn, c.stmts = conn, map[string]*sql.Stmt{}
	return nil
}

// prepare returns the statement, prepared at its first use.
func (c *connection) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *connection) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// drop closes the connection after something went wrong on it whose end is not known: whatever was open on it is rolled back.
func (c *connection) drop() {
	if c.conn == nil {
		return
	}
	c.closeStatements()
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool closes a bad connection instead of keeping it
	_ = c.conn.Close()
	c.conn, c.stmts = nil, nil
}

func (c *connection) close() error {
	if c.conn == nil {
		return nil
	}
	c.closeStatements()
	err := c.conn.Close()
	c.conn, c.stmts = nil, nil
	return err
}

func (c *connection) closeStatements() {
	for _, s := range c.stmts {
		_ = s.Close() // the connection goes with them
	}
}
