package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/conformance/world/proxy"
	"github.com/pawlworks/pawl/ledger"
)

// office is a mail server behind a wire on which one line can be held.
type office struct {
	t    *testing.T
	box  *mailbox.Mailbox
	wire *proxy.Proxy
	mu   sync.Mutex
	dots map[int]int // final dots by connection
	hold *heldLine
}

// heldLine is one line that is kept from the other side until it is released.
type heldLine struct {
	point      proxy.Point
	fromServer bool
	reached    chan int // the connection
	release    chan struct{}
	releasing  sync.Once
	taken      bool
}

func newOffice(t *testing.T, session time.Duration) *office {
	t.Helper()
	box, err := mailbox.Start(mailbox.Options{SessionTimeout: session})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, box: box, dots: map[int]int{}}
	if o.wire, err = proxy.Start("127.0.0.1:0", box.SMTPAddr(), o.judge); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o.hold != nil {
			o.hold.let()
		}
		_ = o.wire.Close()
		_ = box.Close()
	})
	return o
}

// holdNext holds the next line of this kind.
func (o *office) holdNext(point proxy.Point, fromServer bool) *heldLine {
	h := &heldLine{point: point, fromServer: fromServer, reached: make(chan int, 1), release: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hold = h
	return h
}

func (o *office) judge(l proxy.Line) proxy.Verdict {
	o.mu.Lock()
	if !l.FromServer && l.Point == proxy.Dot {
		o.dots[l.Connection]++
	}
	h := o.hold
	mine := h != nil && !h.taken && h.point == l.Point && h.fromServer == l.FromServer
	if mine {
		h.taken = true
	}
	o.mu.Unlock()
	if mine {
		h.reached <- l.Connection
		<-h.release
	}
	return proxy.Pass
}

func (h *heldLine) let() { h.releasing.Do(func() { close(h.release) }) }

// await returns the connection on which the line is held.
func (h *heldLine) await(t *testing.T) int {
	t.Helper()
	select {
	case n := <-h.reached:
		return n
	case <-time.After(patience):
		t.Fatalf("no line at %s came by", h.point)
		return 0
	}
}

func (o *office) dotsOf(connection int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dots[connection]
}

// settings is the adapter's configuration; settle is what it says of the server's patience.
func (o *office) settings(settle time.Duration) map[string]any {
	address := func(a string) (string, int) {
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			o.t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			o.t.Fatal(err)
		}
		return host, n
	}
	host, port := address(o.wire.Addr())
	imapHost, imapPort := address(o.box.IMAPAddr())
	return map[string]any{
		"host": host, "port": port, "tls": "none", "from": "robot@example.test", "connect_timeout": "2s", "command_timeout": "60s",
		"reply_timeout": "60s", "server_session_timeout": settle.String(),
		"imap": map[string]any{
			"host": imapHost, "port": imapPort, "tls": "none", "username": mailbox.DefaultUser, "password": mailbox.DefaultPassword,
			"allow_plaintext_password": true, "stored_before_reply": true, "timeout": "2s",
		},
	}
}

// awaitPhase waits until a connection has come to a phase.
func (o *office) awaitPhase(phase mailbox.Phase) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := o.box.AwaitPhase(ctx, phase); err != nil {
		o.t.Fatal(err)
	}
}

// awaitIdle waits until no connection to the mail server is open: whoever could still send has gone.
func (o *office) awaitIdle(s *scene) {
	o.t.Helper()
	_, port, err := net.SplitHostPort(o.box.SMTPAddr())
	if err != nil {
		o.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		o.t.Fatal(err)
	}
	local := fmt.Sprintf(":%04X", n)
	s.eventually("every connection to the mail server has ended", func() error {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(table)) {
			// "sl local remote state …"; 01 is established, 08 is closed by the other side only.
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], local) && (f[3] == "01" || f[3] == "08") {
				return fmt.Errorf("open: %s", strings.Join(f[:4], " "))
			}
		}
		return nil
	})
}

// oneMail requires exactly one mail with the subject.
func (o *office) oneMail(subject string) {
	o.t.Helper()
	if n := o.box.CountContaining("Subject: " + subject); n != 1 {
		o.t.Errorf("the mail %q was accepted %d times, want once", subject, n)
	}
}

func newMailScene(t *testing.T, backend string, o *office, settle time.Duration) *scene {
	t.Helper()
	return newScene(t, backend, "mail/promise", "smtp", o.settings(settle))
}

// A mail server keeps a mail for itself, before or after it has stored it, while engine and adapter are killed.
func TestAMailThatTheServerHeldWhileEngineAndAdapterDiedIsSentOnceAndCommitted(t *testing.T) {
	for _, backend := range backends {
		for _, phase := range []mailbox.Phase{mailbox.PhaseDot, mailbox.PhaseAccepted} {
			t.Run(backend+"/"+string(phase), func(t *testing.T) {
				t.Parallel()
				o := newOffice(t, time.Minute)
				s := newMailScene(t, backend, o, 30*time.Second) // what the server may take after our death settles that late
				hold := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(hold) })
				defer letGo()
				o.box.Inject(mailbox.Fault{Phase: phase, Hold: hold})
				first := s.engine("e1", nil)
				k := s.claimMail("held")
				o.awaitPhase(phase)
				stamped := s.await(k, "is stamped", ledger.Intent.Stamped)
				first.kill(true)

				s.engine("e2", nil)
				if phase == mailbox.PhaseDot {
					// The new engine has asked, and an absence does not count yet.
					i := s.await(k, "is probed by the new engine", func(i ledger.Intent) bool { return i.Probes > 0 })
					if i.State != ledger.StateDispatched || i.FenceNumber <= stamped.FenceNumber {
						t.Errorf("after a look that saw nothing: %s under fence %d", i.State, i.FenceNumber)
					}
					letGo()
				} else {
					s.await(k, "is committed while the server still holds its answer", committed)
					letGo()
				}
				i := s.await(k, "is committed", committed)
				if i.Attempts != 1 || i.Established != ledger.ByProbe {
					t.Errorf("committed after %d attempts, established %q, want one, by probe", i.Attempts, i.Established)
				}
				o.awaitIdle(s)
				o.oneMail("held")
				s.verifyReceipt(k)
			})
		}
	}
}

// Fences that last for ten minutes do not make a crash last for ten minutes, where an early look is harmless.
func TestWhatADeadEngineLeftIsFoundLongBeforeItsFenceEnds(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, time.Minute)
			s := newMailScene(t, backend, o, time.Second)
			s.policy["send_timeout"], s.policy["fence_ttl"] = "5m", "10m"
			hold := make(chan struct{})
			defer close(hold)
			o.box.Inject(mailbox.Fault{Phase: mailbox.PhaseAccepted, Hold: hold})
			first := s.engine("e1", nil)
			k := s.claimMail("left")
			o.awaitPhase(mailbox.PhaseAccepted)
			first.kill(true)
			s.engine("e2", nil)
			i := s.await(k, "is found", committed)
			if i.Established != ledger.ByProbe || i.Attempts != 1 {
				t.Errorf("committed after %d attempts, established %q, want one, by probe", i.Attempts, i.Established)
			}
			if left := time.Until(i.LastPossibleSend); left < time.Minute {
				t.Errorf("the attempt had only %s left: the test shows nothing", left)
			}
			o.oneMail("left")
			s.verifyReceipt(k)
		})
	}
}
