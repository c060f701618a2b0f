package smtp_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/conformance/world"
)

// step is a point at which the scripted server can misbehave.
type step string

const (
	stepGreeting  step = "greeting"
	stepHello     step = "hello"
	stepStartTLS  step = "starttls"
	stepAuth      step = "auth"
	stepMail      step = "mail"
	stepRecipient step = "recipient"
	stepData      step = "data"
	stepBody      step = "body"
	stepDot       step = "dot"
	stepQuit      step = "quit"
)

// Actions other than replies.
const (
	actCut   = "(cut)"
	actStall = "(stall)"
)

// scripted is a mail server that follows the book but for one step.
type scripted struct {
	t         *testing.T
	listener  net.Listener
	tls       *tls.Config
	authority string // a PEM file
	at        step
	action    string // a reply, actCut or actStall
	offers    []string

	done  sync.WaitGroup
	end   chan struct{}
	mu    sync.Mutex
	dots  int      // complete messages that were seen
	lines []string // commands, and whatever came after a message that never ended
	body  strings.Builder
}

func startScripted(t *testing.T, at step, action string) *scripted {
	t.Helper()
	// A small receive buffer, from the first packet on, so that a large message cannot hide in it.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10) })
		return errors.Join(failed, err)
	}}
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate, pem, err := world.Certificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &scripted{
		t: t, listener: listener, at: at, action: action, end: make(chan struct{}), authority: authority,
		tls:    &tls.Config{Certificates: []tls.Certificate{certificate}},
		offers: []string{"STARTTLS", "AUTH LOGIN PLAIN", "SIZE 33554432", "8BITMIME"},
	}
	s.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(s.stop)
	return s
}

// stop ends the server and waits for it: what it saw is then final.
func (s *scripted) stop() {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
	_ = s.listener.Close()
	s.done.Wait()
}

func (s *scripted) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *scripted) config(t *testing.T, changes map[string]any) json.RawMessage {
	t.Helper()
	config := map[string]any{
		"host": "127.0.0.1", "port": s.port(), "tls": "none", "username": "user", "password": "pass-word-1",
		"allow_plaintext_password": true, "from": "Shop <shop@example.test>",
		"command_timeout": "20s", "reply_timeout": "20s", "connect_timeout": "20s",
	}
	for key, value := range changes {
		config[key] = value
		if value == nil {
			delete(config, key)
		}
	}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answer writes the reply of a step: the book's, or the script's. It reports whether the session goes on.
func (s *scripted) answer(conn net.Conn, at step, book string) bool {
	reply := book
	if s.at == at && s.action != "" {
		switch s.action {
		case actCut:
			world.Cut(conn)
			return false
		case actStall:
			<-s.end
			_ = conn.Close()
			return false
		}
		reply = s.action
	}
	_, err := fmt.Fprintf(conn, "%s\r\n", reply)
	return err == nil
}

func (s *scripted) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !s.answer(conn, stepGreeting, "220 scripted ready") {
		return
	}
	reader := bufio.NewReader(conn)
	encrypted := false
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.saw(line)
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		on := true
		switch verb {
		case "EHLO":
			on = s.hello(conn, encrypted)
		case "STARTTLS":
			if on = s.answer(conn, stepStartTLS, "220 go on"); on && (s.at != stepStartTLS || s.action == "" || strings.HasPrefix(s.action, "220")) {
				secured := tls.Server(conn, s.tls)
				if secured.Handshake() != nil {
					return
				}
				conn, reader, encrypted = secured, bufio.NewReader(secured), true
			}
		case "AUTH":
			on = s.answer(conn, stepAuth, "235 2.7.0 welcome")
		case "MAIL":
			on = s.answer(conn, stepMail, "250 2.1.0 ok")
		case "RCPT":
			on = s.answer(conn, stepRecipient, "250 2.1.5 ok")
		case "DATA":
			if on = s.answer(conn, stepData, "354 go on"); on && (s.at != stepData || s.action == "" || strings.HasPrefix(s.action, "354")) {
				on = s.message(conn, reader)
			}
		case "QUIT":
			s.answer(conn, stepQuit, "221 2.0.0 bye")
			return
		default:
			on = s.answer(conn, "", "500 5.5.1 what?")
		}
		if !on {
			return
		}
	}
}

func (s *scripted) hello(conn net.Conn, encrypted bool) bool {
	lines := []string{"scripted"}
	for _, extension := range s.offers {
		if !encrypted || extension != "STARTTLS" {
			lines = append(lines, extension)
		}
	}
	reply := ""
	for i, line := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		reply += "250" + separator + line + "\r\n"
	}
	return s.answer(conn, stepHello, strings.TrimSuffix(reply, "\r\n"))
}

func (s *scripted) message(conn net.Conn, reader *bufio.Reader) bool {
	for first := true; ; first = false {
		line, err := reader.ReadString('\n')
		if first && err == nil && s.at == stepBody && !s.answer(conn, stepBody, "") {
			return false
		}
		if err != nil {
			s.saw("unfinished: " + line + " " + err.Error())
			return false
		}
		if line == ".\r\n" {
			s.mu.Lock()
			s.dots++
			s.mu.Unlock()
			return s.answer(conn, stepDot, "250 2.0.0 Ok: queued as ABC123")
		}
		s.mu.Lock()
		s.body.WriteString(strings.TrimPrefix(line, "."))
		s.mu.Unlock()
	}
}

func (s *scripted) saw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// commands returns what was seen, after the server has ended.
func (s *scripted) commands() []string {
	s.stop()
	return s.lines
}

// waitFor waits until the condition holds; the server's goroutines make it true.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(time.Millisecond)
	}
}
