package pgtest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// readyIdle is how the server ends its answer outside a transaction (ReadyForQuery, idle).
const readyIdle = "Z\x00\x00\x00\x05I"

// Proxy stands between a client and the server and breaks connections when it is told to. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	group    sync.WaitGroup

	mu      sync.Mutex
	target  string
	open    map[net.Conn]bool
	down    bool
	marker  string
	forward bool
}

// NewProxy returns a proxy before the server of the URL, and the URL to use instead. It ends with the test.
func NewProxy(t testing.TB, database string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: u.Host, open: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Down()
		p.group.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

// Down breaks every connection, and every one that is made until [Proxy.Up].
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	p.breakAll()
}

// Up lets connections through again.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Lead leads to the host of another URL from now on, and breaks the connections that led elsewhere.
func (p *Proxy) Lead(t testing.TB, database string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u.Host
	p.breakAll()
}

func (p *Proxy) destination() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// CutAnswer breaks the connection of the next client that sends text, after the server has answered and before the client hears it:
// what was asked for has happened. It works once.
func (p *Proxy) CutAnswer(text string) { p.arm(text, true) }

// CutRequest breaks it before the server hears: nothing has happened. It works once.
func (p *Proxy) CutRequest(text string) { p.arm(text, false) }

func (p *Proxy) arm(text string, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker, p.forward = text, forward
}

func (p *Proxy) breakAll() {
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.destination())
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		cut := make(chan bool, 1) // the marker was seen: the answer goes nowhere
		p.group.Go(func() { p.requests(client, server, cut) })
		p.group.Go(func() { p.answers(client, server, cut) })
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
}

// fires reports whether the marker stands in the request, and disarms it.
func (p *Proxy) fires(request []byte) (fires, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.marker == "" || !bytes.Contains(request, []byte(p.marker)) {
		return false, false
	}
	p.marker = ""
	return true, p.forward
}

func (p *Proxy) requests(client, server net.Conn, cut chan<- bool) {
	defer p.drop(client, server)
	buffer := make([]byte, 1<<20) // a request of the tests is sent, and read, in one piece
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		fires, forward := p.fires(buffer[:n])
		if fires && !forward {
			return
		}
		if fires {
			cut <- true
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		if fires {
			_, _ = io.Copy(io.Discard, client) // until the answer is in, and the connection is dropped
			return
		}
	}
}

func (p *Proxy) answers(client, server net.Conn, cut <-chan bool) {
	defer p.drop(client, server)
	buffer := make([]byte, 64<<10)
	var swallowed []byte
	cutting := false
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if !cutting {
			select {
			case cutting = <-cut:
			default:
			}
		}
		if cutting {
			if swallowed = append(swallowed, buffer[:n]...); bytes.HasSuffix(swallowed, []byte(readyIdle)) {
				return
			}
			continue
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
