package postgres

import (
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// notices keeps the warnings of connections. A COMMIT whose wait for the synchronous standby was cancelled reports success with a
// warning: the row is on the primary alone and would be gone after a failover.
type notices struct {
	mu   sync.Mutex
	seen map[*pgconn.PgConn]*warnings
}

// warnings are those of one connection, in one commit.
type warnings struct {
	mu   sync.Mutex
	text string
}

// note is what the driver calls for every notice.
func (n *notices) note(c *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized != "WARNING" && notice.Severity != "WARNING" {
		return
	}
	n.mu.Lock()
	w := n.seen[c]
	n.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = notice.Message
}

// of watches the connection until [watch.check].
func (n *notices) of(c *pgconn.PgConn) *watch {
	w := &warnings{}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[*pgconn.PgConn]*warnings{}
	}
	n.seen[c] = w
	return &watch{n, c, w}
}

type watch struct {
	n *notices
	c *pgconn.PgConn
	w *warnings
}

// drop forgets the connection.
func (w *watch) drop() {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	delete(w.n.seen, w.c)
}

// check returns an error if there was a warning.
func (w *watch) check() error {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	if w.w.text != "" {
		return fmt.Errorf("the commit may not be durable: the database warned: %s", w.w.text)
	}
	return nil
}
