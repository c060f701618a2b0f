package mailbox

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world"
)

// Always, as Fault.Times, keeps a fault until it is cleared.
const Always = -1

// Reply is what the server answers: "451 4.3.0 try again later" is {451, "4.3.0 try again later"}.
type Reply struct {
	Code int
	Text string
}

// Fault is something that goes wrong at a phase. Delay comes first, then Hold, then Cut or Refuse. A fault with none of
// Cut and Refuse only waits, and the delivery goes on.
//
// The gap of RFC 1047 is {Phase: PhaseAccepted, Cut: true}: the mail counts, and the sender never hears of it.
type Fault struct {
	Phase Phase
	Delay time.Duration
	Hold  <-chan struct{} // wait until it is closed, or the mailbox is
	Cut   bool            // cut the connection
	// Refuse answers this instead of going on. At PhaseAccepted the mail is stored all the same: a server that lies.
	Refuse *Reply
	// Recipient limits the fault to mail for this address; only from PhaseRecipient on.
	Recipient string
	// Times is how often it happens. 0: once.
	Times int
}

type faults struct {
	mu     sync.Mutex
	active []*Fault
}

func newFaults() *faults { return &faults{} }

// Inject arms a fault. The returned function clears it.
func (m *Mailbox) Inject(f Fault) (clear func()) {
	if f.Times == 0 {
		f.Times = 1
	}
	armed := &f
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.active = append(m.faults.active, armed)
	return func() { m.faults.remove(armed) }
}

// ClearFaults disarms all faults.
func (m *Mailbox) ClearFaults() {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.active = nil
}

func (f *faults) remove(gone *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, armed := range f.active {
		if armed == gone {
			f.active = append(f.active[:i:i], f.active[i+1:]...)
			return
		}
	}
}

// take returns the fault that is due at the phase, if any, and uses one of its times up.
func (f *faults) take(phase Phase, recipient string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, armed := range f.active {
		if armed.Phase != phase || armed.Recipient != "" && !strings.EqualFold(armed.Recipient, recipient) {
			continue
		}
		due := *armed
		if armed.Times > 0 {
			armed.Times--
			if armed.Times == 0 {
				f.active = append(f.active[:i:i], f.active[i+1:]...)
			}
		}
		return &due
	}
	return nil
}

var errCut = errors.New("the connection was cut by a fault")

// reach publishes the event and applies the fault of the phase to conn. Its error ends the command: a *smtp.SMTPError is
// the reply.
func (m *Mailbox) reach(conn net.Conn, event Event) error {
	m.events.publish(event)
	fault := m.faults.take(event.Phase, event.Recipient)
	if fault == nil {
		return nil
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-m.closing:
		}
	}
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-m.closing:
			// A server that goes away lets nothing through that it had not stored yet.
			world.Cut(conn)
			return errCut
		}
	}
	if fault.Cut {
		world.Cut(conn)
		return errCut
	}
	if fault.Refuse != nil {
		return fault.Refuse.asError()
	}
	return nil
}

func (r Reply) asError() *smtp.SMTPError {
	return &smtp.SMTPError{Code: r.Code, EnhancedCode: smtp.NoEnhancedCode, Message: r.Text}
}

// faultyListener applies the faults of PhaseConnect, where a library's server offers no place for them.
type faultyListener struct {
	*world.Listener
	mailbox *Mailbox
}

func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		err = l.mailbox.reach(conn, Event{Phase: PhaseConnect, Remote: conn.RemoteAddr().String()})
		if err == nil {
			return conn, nil
		}
		var reply *smtp.SMTPError
		if errors.As(err, &reply) {
			_, _ = fmt.Fprintf(conn, "%d %s\r\n", reply.Code, reply.Message)
		}
		_ = conn.Close()
	}
}
