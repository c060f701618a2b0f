package crashtest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// CommitCutter makes Postgres connections on which the answer of one COMMIT never arrives: the server has committed, the
// connection breaks. Set Dial as the DialFunc of a pgx configuration.
type CommitCutter struct {
	at      atomic.Int64
	commits atomic.Int64
}

// CutAfter cuts the answer of the n-th COMMIT from now on, over all connections.
func (c *CommitCutter) CutAfter(n int64) { c.at.Store(c.commits.Load() + n) }

// Commits returns how many commits were answered, the cut one included.
func (c *CommitCutter) Commits() int64 { return c.commits.Load() }

// Dial connects.
func (c *CommitCutter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	inner, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: inner, c: c}, nil
}

// answered is the server's CommandComplete message of a COMMIT: a type byte, a length, the tag.
var answered = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

type cutConn struct {
	net.Conn
	c *CommitCutter

	mu   sync.Mutex
	tail []byte // the end of what was read before, shorter than answered: a message may be split
}

func (n *cutConn) Read(p []byte) (int, error) {
	read, err := n.Conn.Read(p)
	if read == 0 {
		return read, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := append(n.tail, p[:read]...)
	for from := 0; ; {
		i := bytes.Index(seen[from:], answered)
		if i < 0 {
			break
		}
		from += i + len(answered)
		if n.c.commits.Add(1) == n.c.at.Load() {
			_ = n.Conn.Close()
			return 0, net.ErrClosed
		}
	}
	n.tail = append([]byte(nil), seen[max(0, len(seen)-len(answered)+1):]...)
	if bytes.HasSuffix(seen, answered) {
		n.tail = nil
	}
	return read, err
}
