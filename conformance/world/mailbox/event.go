package mailbox

import (
	"context"
	"fmt"
	"sync"
)

// eventsKept bounds how far back Await can see.
const eventsKept = 4096

// Phase is a point in the delivery of a mail, as the server sees it.
type Phase string

const (
	PhaseConnect   Phase = "connect"   // a connection came in, nothing was said yet
	PhaseHello     Phase = "hello"     // EHLO or HELO came
	PhaseAuth      Phase = "auth"      // AUTH came
	PhaseMail      Phase = "mail"      // MAIL came
	PhaseRecipient Phase = "recipient" // RCPT came
	PhaseBody      Phase = "body"      // DATA was answered with 354 and the first bytes of the message came
	PhaseDot       Phase = "dot"       // the whole message and its final dot came; nothing is stored yet
	PhaseAccepted  Phase = "accepted"  // the mail is stored and counts; the reply is not written yet
)

// Event says that a connection reached a phase. It is published before the faults of the phase are applied.
type Event struct {
	Phase     Phase
	Remote    string
	Sender    string
	Recipient string     // the last one named
	Accepted  []Delivery // of PhaseAccepted
}

type events struct {
	callback func(Event)
	mu       sync.Mutex
	kept     []Event
	changed  chan struct{}
}

func newEvents(callback func(Event)) *events {
	return &events{callback: callback, changed: make(chan struct{})}
}

func (e *events) publish(event Event) {
	e.mu.Lock()
	e.kept = append(e.kept, event)
	if len(e.kept) > eventsKept {
		e.kept = append([]Event(nil), e.kept[len(e.kept)-eventsKept:]...)
	}
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	if e.callback != nil {
		e.callback(event)
	}
}

// Await returns the first event that matches, of those that happened already and those to come.
func (m *Mailbox) Await(ctx context.Context, match func(Event) bool) (Event, error) {
	for {
		m.events.mu.Lock()
		for _, event := range m.events.kept {
			if match(event) {
				m.events.mu.Unlock()
				return event, nil
			}
		}
		changed := m.events.changed
		m.events.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("mailbox: the awaited event did not come: %w", ctx.Err())
		}
	}
}

// AwaitPhase is Await for any connection that reaches the phase.
func (m *Mailbox) AwaitPhase(ctx context.Context, phase Phase) (Event, error) {
	return m.Await(ctx, func(e Event) bool { return e.Phase == phase })
}
