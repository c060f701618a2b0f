package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxReplies bounds what a server may say in one session, in bytes.
const maxReplies = 1 << 20

// finalDot is what makes the effect.
var finalDot = []byte(".\r\n")

var (
	errOutOfTurn = errors.New("the server spoke before the final dot")
	errWentAway  = errors.New("the server closed the connection before the final dot")
	errTooMuch   = errors.New("the server says more than a session may hold")
)

// gate is the connection below the SMTP client. While a message is written it holds back the final dot until everything
// before it is on the wire and Begin has agreed; then it writes the dot alone. However the client is used, no dot gets
// out without Begin: a refusal leaves a message that no server can take for complete.
//
// The client library writes the rest of its buffer and the dot in one go, so that this cannot be done above it.
type gate struct {
	net.Conn
	raw    net.Conn      // the TCP connection itself
	prefix []byte        // read before the connection: a greeting that was read already
	idle   time.Duration // of one write of the message
	until  time.Time     // no deadline is later than this; zero: none
	// replyUntil takes its place once Begin has agreed.
	replyUntil time.Time
	begin      func() error
	inBody     bool
	state      gateState
	out        []byte
	heard      []byte // since the last command
	total      int
	err        error       // why the dot was not written
	refused    error       // the same, if Begin said it
	begun      atomic.Bool // Begin agreed; the dot may be on the wire
	aborted    atomic.Bool
}

type gateState int

const (
	atLineBegin gateState = iota
	afterDot              // held back: a dot at the begin of a line
	afterDotCR            // held back: a dot and CR
	inLine
	afterCR
)

// Read reads from the server and remembers what was heard since the last command.
func (g *gate) Read(p []byte) (int, error) {
	var n int
	var err error
	if len(g.prefix) > 0 {
		n = copy(p, g.prefix)
		g.prefix = g.prefix[n:]
	} else {
		n, err = g.Conn.Read(p)
	}
	g.total += n
	if g.total > maxReplies {
		return 0, errTooMuch
	}
	if !g.inBody {
		g.heard = append(g.heard, p[:n]...)
	}
	return n, err
}

// Write passes commands on, and messages up to their final dot.
func (g *gate) Write(p []byte) (int, error) {
	if !g.inBody {
		g.heard = g.heard[:0]
		return g.Conn.Write(p)
	}
	if g.err != nil {
		return 0, g.err
	}
	end := g.scan(p)
	if err := g.setWriteDeadline(); err != nil {
		return 0, g.fail(err)
	}
	if len(g.out) > 0 {
		if _, err := g.Conn.Write(g.out); err != nil {
			return 0, g.fail(err)
		}
	}
	if end < 0 {
		return len(p), nil
	}
	if end != len(p) {
		return 0, g.fail(errors.New("something follows the final dot"))
	}
	if err := g.listen(); err != nil {
		return 0, g.fail(err)
	}
	if g.aborted.Load() {
		return 0, g.fail(net.ErrClosed)
	}
	if err := g.begin(); err != nil {
		g.refused = err
		return 0, g.fail(err)
	}
	g.begun.Store(true)
	g.inBody = false
	g.heard = g.heard[:0]
	g.until = g.replyUntil // the reply may come after the not-after
	_ = g.setWriteDeadline()
	if _, err := g.Conn.Write(finalDot); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (g *gate) fail(err error) error {
	g.err = err
	return err
}

// enterBody begins a message: the server answered DATA with 354, and with nothing else.
func (g *gate) enterBody(begin func() error) error {
	if !oneReply(g.heard) {
		return errOutOfTurn
	}
	g.begin, g.inBody, g.state = begin, true, atLineBegin
	return nil
}

// scan moves what may go out to g.out and holds back what may be the final dot. It returns the offset behind the final
// dot, or -1.
func (g *gate) scan(p []byte) int {
	g.out = g.out[:0]
	for i, b := range p {
		switch g.state {
		case atLineBegin:
			if b == '.' {
				g.state = afterDot
				continue
			}
		case afterDot:
			if b == '\r' {
				g.state = afterDotCR
				continue
			}
			g.out = append(g.out, '.')
		case afterDotCR:
			if b == '\n' {
				return i + 1
			}
			g.out = append(g.out, '.', '\r')
		}
		g.out = append(g.out, b)
		switch {
		case b == '\r':
			g.state = afterCR
		case b == '\n' && g.state == afterCR:
			g.state = atLineBegin
		default:
			g.state = inLine
		}
	}
	return -1
}

// listen makes sure that the server is there and has said nothing since its 354: an early reply would be taken for the
// answer to the dot.
func (g *gate) listen() error {
	if raw, ok := g.raw.(syscall.Conn); ok {
		if err := peek(raw); err != nil {
			return err
		}
	}
	// What TLS has read already is not in the socket any more. A deadline in the past reads that and nothing else.
	if err := g.Conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	var one [1]byte
	n, err := g.Conn.Read(one[:])
	if n > 0 {
		return errOutOfTurn
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		return fmt.Errorf("%w: %w", errWentAway, err)
	}
	return g.SetReadDeadline(time.Time{})
}

// peek looks into the socket without taking anything out and without waiting. A read with a short deadline would not do:
// on a busy machine the deadline can pass before the read begins, and then it sees nothing of what is there.
func peek(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var found error
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			found = fmt.Errorf("%w: %w", errWentAway, err)
		case n == 0:
			found = errWentAway
		default:
			found = errOutOfTurn
		}
	})
	return errors.Join(found, err)
}

func (g *gate) setWriteDeadline() error {
	if g.idle <= 0 {
		return g.SetWriteDeadline(time.Time{})
	}
	return g.SetWriteDeadline(time.Now().Add(g.idle))
}

// clamp keeps a deadline within that of the call.
func (g *gate) clamp(t time.Time) time.Time {
	if g.until.IsZero() || !t.IsZero() && t.Before(g.until) {
		return t
	}
	return g.until
}

func (g *gate) SetDeadline(t time.Time) error      { return g.Conn.SetDeadline(g.clamp(t)) }
func (g *gate) SetReadDeadline(t time.Time) error  { return g.Conn.SetReadDeadline(g.clamp(t)) }
func (g *gate) SetWriteDeadline(t time.Time) error { return g.Conn.SetWriteDeadline(g.clamp(t)) }

// oneReply reports whether b is one whole reply, of one or several lines, and nothing else.
func oneReply(b []byte) bool {
	for {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !found || len(line) < 4 {
			return false
		}
		if line[3] != '-' {
			return len(rest) == 0
		}
		b = rest
	}
}
