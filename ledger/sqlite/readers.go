package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// readers is a small pool of connections that only read. In WAL mode they wait for nobody, and nobody for them.
type readers struct {
	l    *Ledger
	free chan *connection
	size int
}

// read runs f in one transaction that reads, and so sees one state of the ledger.
func (r *readers) read(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	var c *connection
	select {
	case c = <-r.free:
		if c == nil {
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.free <- c }()
	if err := c.open(ctx); err != nil {
		return err
	}
	if _, err := c.exec(ctx, "BEGIN"); err != nil {
		c.drop()
		return fmt.Errorf("begin: %w", err)
	}
	s := &session{l: r.l, prepare: c.prepare, readOnly: true}
	ended := false
	defer func() {
		if !ended {
			c.drop() // f panicked, or its goroutine ended
		}
	}()
	err := f(ctx, s)
	ended = true
	if _, failed := c.exec(context.WithoutCancel(ctx), "ROLLBACK"); failed != nil {
		c.drop()
		if err == nil {
			err = fmt.Errorf("end a read: %w", failed)
		}
	}
	return err
}

// close waits for reads under way.
func (r *readers) close() error {
	var errs []error
	for range r.size {
		c := <-r.free
		if c == nil {
			return nil // closed before
		}
		errs = append(errs, c.close())
	}
	close(r.free)
	return errors.Join(errs...)
}
