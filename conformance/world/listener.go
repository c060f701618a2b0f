package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Listener is a TCP listener that knows its open connections. It is safe for concurrent use.
type Listener struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	total  int
	closed bool
}

// Listen listens on a TCP address ("127.0.0.1:0" picks a free port).
func Listen(ctx context.Context, address string) (*Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &Listener{Listener: l, conns: make(map[*trackedConn]struct{})}, nil
}

// Accept waits for the next connection and remembers it until it is closed.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: c, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.conns[tracked] = struct{}{}
	l.total++
	return tracked, nil
}

// KillConnections cuts every open connection, without goodbye, and returns how many there were.
func (l *Listener) KillConnections() int {
	l.mu.Lock()
	open := make([]*trackedConn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		Cut(c)
	}
	return len(open)
}

// Accepted returns how many connections were accepted since the start.
func (l *Listener) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Close stops listening and cuts every open connection.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.Listener.Close()
	l.KillConnections()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

type trackedConn struct {
	net.Conn
	listener *Listener
}

func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Cut closes a connection with a reset: what has not been delivered yet is lost, and the peer sees an error at once.
func Cut(c net.Conn) {
	inner := c
	for {
		switch layer := inner.(type) {
		case *trackedConn:
			inner = layer.Conn
			continue
		case interface{ NetConn() net.Conn }: // a TLS connection: no closing alert is written
			if tracked, ok := layer.NetConn().(*trackedConn); ok {
				Cut(tracked)
				return
			}
			inner = layer.NetConn()
			continue
		case *net.TCPConn:
			_ = layer.SetLinger(0)
		}
		break
	}
	if tracked, ok := c.(*trackedConn); ok {
		_ = tracked.Close()
		return
	}
	_ = inner.Close()
}
