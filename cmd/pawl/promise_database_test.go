package main_test

import (
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

// cable is a wire between engines and their database.
type cable struct {
	t        *testing.T
	target   string
	listener net.Listener
	served   sync.WaitGroup

	mu    sync.Mutex
	state cableState
	ended chan struct{} // closed when the state changes
	conns map[net.Conn]bool
}

type cableState int

const (
	whole   cableState = iota
	severed            // connections are reset, new ones are refused
	silent             // nothing is passed on, nobody is told
)

func newCable(t *testing.T, target string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, target: target, listener: l, ended: make(chan struct{}), conns: map[net.Conn]bool{}}
	c.served.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.set(severed)
		c.served.Wait()
	})
	return c
}

// through is the URL of the database by way of the cable.
func (c *cable) through(database string) string {
	c.t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		c.t.Fatal(err)
	}
	u.Host = c.listener.Addr().String()
	return u.String()
}

func (c *cable) set(state cableState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
	close(c.ended)
	c.ended = make(chan struct{})
	if state == whole {
		return
	}
	for conn := range c.conns {
		if state == severed {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

func (c *cable) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.served.Go(func() { c.pass(client) })
	}
}

// passable waits while nothing is passed on. false: the connection is to end.
func (c *cable) passable() bool {
	for {
		c.mu.Lock()
		state, ended := c.state, c.ended
		c.mu.Unlock()
		switch state {
		case whole:
			return true
		case severed:
			return false
		}
		<-ended
	}
}

func (c *cable) pass(client net.Conn) {
	defer client.Close()
	if !c.passable() {
		return
	}
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	c.conns[client], c.conns[server] = true, true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, client)
		delete(c.conns, server)
	}()
	var both sync.WaitGroup
	pump := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if !c.passable() {
				return
			}
			if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
				return
			}
		}
	}
	both.Go(func() { pump(server, client) })
	both.Go(func() { pump(client, server) })
	both.Wait()
}

// newFileScene makes a scene whose effects are lines of a file.
func newFileScene(t *testing.T, backend, database string) *scene {
	t.Helper()
	dir := t.TempDir()
	settings := map[string]any{"path": filepath.Join(dir, "effects.jsonl")}
	if backend == "sqlite" || database == "" {
		return newScene(t, backend, "file/promise", "file", settings)
	}
	return newSceneOn(t, database, "file/promise", "file", settings)
}

// awaitBeats waits until every engine has beaten again after now.
func (s *scene) awaitBeats(engines []*engine) {
	s.t.Helper()
	since := time.Now()
	s.eventually("every engine beats again", func() error {
		all, err := s.ledger.Instances(s.ctx)
		if err != nil {
			return err
		}
		beating := map[int]bool{}
		for _, i := range all {
			beating[i.Process] = beating[i.Process] || i.Age < time.Since(since)
		}
		for _, e := range engines {
			if !e.running() {
				s.t.Fatalf("%s ended with code %d", e.name, e.code)
			}
			if !beating[e.pid] {
				return fmt.Errorf("%s does not", e.name)
			}
		}
		return nil
	})
}

func TestAnAbruptDatabaseRestartUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	const restarts, each = 4, 100
	db := pgtest.NewServer(t)
	s := newFileScene(t, "postgres", db.Database(t))
	engines := []*engine{s.engine("e1", nil), s.engine("e2", nil)}
	for n := range restarts {
		s.claimLines(n*each, (n+1)*each)
		s.eventually("the load is under way", func() error {
			if done := len(s.lines()); done < n*each+10 {
				return fmt.Errorf("%d lines", done)
			}
			return nil
		})
		db.Restart(t)
	}
	s.awaitBeats(engines)
	s.claimLines(restarts*each, (restarts+1)*each) // dispatch has resumed, too
	s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == (restarts+1)*each })
	s.eachLineOnce((restarts + 1) * each)
}

func TestNothingIsSentWhileTheDatabaseIsCutOffAndAllOfItAfterwards(t *testing.T) {
	const each = 150
	for _, how := range []struct {
		name  string
		state cableState
	}{{"connections are refused", severed}, {"packets vanish", silent}} {
		t.Run(how.name, func(t *testing.T) {
			s := newFileScene(t, "postgres", pgtest.Database(t))
			u, err := url.Parse(s.url)
			if err != nil {
				t.Fatal(err)
			}
			wire := newCable(t, u.Host)
			var engines []*engine
			for _, name := range []string{"e1", "e2"} {
				e := s.newEngine(name, wire.through(s.url), nil)
				e.start()
				e.awaitUp()
				engines = append(engines, e)
			}
			s.claimLines(0, each)
			s.eventually("the load is under way", func() error {
				if done := len(s.lines()); done < 20 {
					return fmt.Errorf("%d lines", done)
				}
				return nil
			})
			wire.set(how.state)
			s.claimLines(each, 2*each) // by somebody who still reaches the database
			// What was stamped before may still go out, until its not-after: the send time-out.
			time.Sleep(2500 * time.Millisecond)
			before := len(s.lines())
			time.Sleep(5 * time.Second) // every fence dies meanwhile
			if after := len(s.lines()); after != before {
				t.Errorf("%d effects were made while the ledger could not be written", after-before)
			}
			if before >= 2*each {
				t.Error("everything was sent before the cut: the test shows nothing")
			}
			wire.set(whole)
			s.awaitBeats(engines)
			s.awaitStats("all is committed", func(st ledger.Stats) bool { return st.Committed == 2*each })
			s.eachLineOnce(2 * each)
		})
	}
}

func TestAQueueThatIsEmptiedByHandUnderLoadLosesNothing(t *testing.T) {
	const all = 300
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			s := newFileScene(t, backend, "")
			s.times["scan_every"] = "1s"
			engines := []*engine{s.engine("e1", nil), s.engine("e2", nil)}
			for n := range 5 {
				s.claimLines(n*all/5, (n+1)*all/5)
				s.emptyQueue()
			}
			for done := 0; done < all; {
				s.emptyQueue()
				s.eventually("the work goes on", func() error {
					stats, err := s.ledger.Stats(s.ctx)
					if err == nil && stats.Committed < min(done+60, all) {
						err = fmt.Errorf("the ledger counts %+v", stats)
					}
					done = max(done, stats.Committed)
					return err
				})
			}
			s.eachLineOnce(all)
			mended := false
			for _, e := range engines {
				mended = mended || e.logged("queue.mended")
			}
			if !mended {
				t.Error("no engine mended the queue: it was never empty of what waited")
			}
		})
	}
}

// emptyQueue deletes every row of the queue, as a person at a console might.
func (s *scene) emptyQueue() {
	s.t.Helper()
	const statement = "DELETE FROM dispatch_queue"
	s.eventually("the queue is emptied", func() error {
		if path, ok := strings.CutPrefix(s.url, "sqlite:"); ok {
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.ExecContext(s.ctx, statement)
			return err
		}
		conn, err := pgx.Connect(s.ctx, s.url)
		if err != nil {
			return err
		}
		defer conn.Close(s.ctx)
		_, err = conn.Exec(s.ctx, statement)
		return err
	})
}
