package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlworks/pawl/conformance/world"
)

// dialTimeout bounds the connection to the target, which is on this host.
const dialTimeout = 10 * time.Second

// Proxy passes connections on. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener *world.Listener
	decide   atomic.Pointer[Decide]
	cuts     atomic.Int64
	served   sync.WaitGroup
}

// Start listens on address ("127.0.0.1:0" picks a free port) and passes connections on to target. A nil decide passes
// everything.
func Start(address, target string, decide Decide) (*Proxy, error) {
	listener, err := world.Listen(context.Background(), address)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: target, listener: listener}
	p.SetDecide(decide)
	p.served.Go(p.serve)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetDecide replaces the judge, also for connections that are open.
func (p *Proxy) SetDecide(decide Decide) {
	if decide == nil {
		decide = func(Line) Verdict { return Pass }
	}
	p.decide.Store(&decide)
}

// Cuts returns how many connections were cut by a verdict.
func (p *Proxy) Cuts() int { return int(p.cuts.Load()) }

// Close stops the proxy, cuts its connections and waits for them.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.served.Wait()
	return err
}

func (p *Proxy) serve() {
	for number := 1; ; number++ {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.served.Go(func() { p.pass(number, client) })
	}
}

func (p *Proxy) pass(number int, client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil {
		world.Cut(client)
		return
	}
	c := &connection{proxy: p, number: number, client: client, server: server, talk: conversation{last: Greeting}}
	var both sync.WaitGroup
	both.Go(func() { c.pump(server, client, false) })
	both.Go(func() { c.pump(client, server, true) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

type connection struct {
	proxy          *Proxy
	number         int
	client, server net.Conn
	mu             sync.Mutex
	talk           conversation
	encrypted      atomic.Bool
}

// pump passes lines from one side to the other until one of them ends.
func (c *connection) pump(to, from net.Conn, fromServer bool) {
	reader := bufio.NewReader(from)
	for !c.encrypted.Load() {
		raw, err := reader.ReadString('\n')
		if raw != "" && !c.line(to, raw, fromServer) {
			return
		}
		if err != nil {
			c.end(to, err)
			return
		}
	}
	_, err := io.Copy(to, reader)
	c.end(to, err)
}

// end hands an end of one side on to the other.
func (c *connection) end(to net.Conn, err error) {
	if err == nil || errors.Is(err, io.EOF) {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			return
		}
	}
	_ = to.Close()
}

func (c *connection) line(to net.Conn, raw string, fromServer bool) bool {
	text := strings.TrimRight(raw, "\r\n")
	c.mu.Lock()
	var point Point
	if fromServer {
		point = c.talk.fromServer(text)
	} else {
		point = c.talk.fromClient(text)
	}
	c.mu.Unlock()
	verdict := (*c.proxy.decide.Load())(Line{Connection: c.number, FromServer: fromServer, Point: point, Text: text})
	switch verdict {
	case CutBefore:
		c.cut()
		return false
	case Swallow:
		return true
	}
	if fromServer && point == StartTLS && strings.HasPrefix(text, "220") {
		c.encrypted.Store(true) // before the client can answer
	}
	if _, err := io.WriteString(to, raw); err != nil || verdict == CutAfter {
		if verdict == CutAfter {
			// A reset would overtake the line that was just passed on.
			c.proxy.cuts.Add(1)
			_ = c.client.Close()
			_ = c.server.Close()
		}
		return false
	}
	return true
}

func (c *connection) cut() {
	c.proxy.cuts.Add(1)
	world.Cut(c.client)
	world.Cut(c.server)
}
