package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// walk goes through the log and keeps what one entry says of the next.
type walk struct {
	detail pawlclient.Detail
	around Around
	events []Event

	// A dispatch of which nothing is written yet: who took it, and how many attempts there had been before.
	open      bool
	owner     string
	taken     time.Time
	before    int
	firstSaid bool // that the first attempt began
}

// kept is the detail of a log entry.
type kept struct {
	Fence      string          `json:"fence"`
	Proof      string          `json:"proof"`
	Reason     string          `json:"reason"`
	By         string          `json:"by"`
	As         string          `json:"as"`
	ProbeBegan time.Time       `json:"probe_began"`
	Evidence   json.RawMessage `json:"evidence"`
}

func (w *walk) say(at time.Time, format string, args ...any) {
	w.events = append(w.events, Event{at, fmt.Sprintf(format, args...)})
}

func (w *walk) begin() {
	i := w.detail.Intent
	text := "It was claimed"
	if i.RedriveOf != "" {
		text = fmt.Sprintf("It was claimed again for %s, which had been abandoned", i.RedriveOf)
	}
	if strings.HasPrefix(i.EffectKey, "shadow:") {
		text += " while its channel was in shadow: it is never sent"
	}
	if a := i.Approval; a != nil {
		text += fmt.Sprintf(", approved by %s (%s)", a.By, a.Reference)
	}
	w.say(i.CreatedAt, "%s.", text)
}

// entry tells one row of the log.
func (w *walk) entry(e pawlclient.LogEntry) {
	var k kept
	_ = json.Unmarshal(e.Detail, &k) // what cannot be read is left out
	number, owner := ownerOf(k.Fence)
	if e.Outcome == "fenced" && k.Reason == "" {
		w.open, w.owner, w.taken, w.before = true, owner, e.At, e.Attempt
		w.say(e.At, "%s took it to send it (fence %s).", w.engine(owner), number)
		return
	}
	if e.Outcome != "deduped" && e.Outcome != "late" {
		w.gap(e, k, owner)
	}
	w.outcome(e, k, owner)
}

// ownerOf reads a fence as it is written: "epoch.number by owner".
func ownerOf(fence string) (number, owner string) {
	number, owner, _ = strings.Cut(fence, " by ")
	_, number, _ = strings.Cut(number, ".")
	return number, owner
}

// engine names an engine, and says so if it is not there any more.
func (w *walk) engine(id string) string {
	switch {
	case id == "":
		return "An engine"
	case id == "caller" || id == "local":
		return "The program that claimed it"
	case strings.HasPrefix(id, "person-"):
		return "A person"
	}
	return "Engine " + id
}

// gap closes a dispatch whose own engine wrote nothing: somebody else writes now.
func (w *walk) gap(e pawlclient.LogEntry, k kept, owner string) {
	if !w.open {
		return
	}
	w.open = false
	if e.Attempt > w.before && w.before == 0 && !w.firstSaid && !w.detail.Intent.FirstSentAt.IsZero() {
		w.firstSaid = true
		w.say(w.detail.Intent.FirstSentAt, "%s began attempt 1: it was written down before anything went out.", w.engine(w.owner))
	}
	if ownAnswer(e, k) || owner == w.owner {
		return
	}
	if e.Attempt > w.before && w.before > 0 { // when is not written down
		w.say(w.taken, "%s began attempt %d.", w.engine(w.owner), e.Attempt)
	}
	lost := fmt.Sprintf("%s had died or lost touch with the ledger%s", w.engine(w.owner), w.lastSeen(w.owner))
	switch {
	case e.Attempt > w.before:
		w.say(e.At, "%s: no answer to attempt %d was ever written down, so it may have taken effect.", lost, e.Attempt)
	case k.Proof == "no_stamp": // told by the entry itself
	default:
		w.say(e.At, "%s before it began an attempt.", lost)
	}
}

// ownAnswer reports whether an entry is what a sender writes of its own attempt.
func ownAnswer(e pawlclient.LogEntry, k kept) bool {
	switch e.Outcome {
	case "sent", "ambiguous", "not_sent", "rejected":
		return true
	case "accepted":
		return k.ProbeBegan.IsZero()
	}
	return false
}

func (w *walk) lastSeen(id string) string {
	for _, e := range w.around.Engines {
		switch {
		case e.Instance != id:
		case e.Stopped:
			return fmt.Sprintf(" (it stopped, and was last seen at %s)", clock(e.LastSeen))
		case e.Age > silent:
			return fmt.Sprintf(" (it was last seen at %s)", clock(e.LastSeen))
		}
	}
	return ""
}

// silent is after how many seconds without a beat an engine is worth a word.
const silent = 60

// Alive reports whether an engine was heard of lately.
func Alive(e pawlclient.Engine) bool { return !e.Stopped && e.Age <= silent }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// missing says what the log cannot tell.
func (w *walk) missing() {
	i := w.detail.Intent
	if w.open && i.State == pawlclient.StateDispatched {
		if i.Attempts > w.before && w.before == 0 && !w.firstSaid && !i.FirstSentAt.IsZero() {
			w.say(i.FirstSentAt, "%s began attempt 1: it was written down before anything went out.", w.engine(w.owner))
		} else if i.Attempts > w.before {
			w.say(w.lastAt(), "%s began attempt %d; nothing more is written down yet.", w.engine(w.owner), i.Attempts)
		}
	}
	if !i.PrunedAt.IsZero() {
		w.say(i.PrunedAt, "Payload, tokens and log were removed; the row and its receipts stay.")
	}
	if len(w.detail.Log) == 0 && i.State != pawlclient.StateIntent && !i.EndedAt.IsZero() {
		w.say(i.EndedAt, "It ended: %s. There is no log that says how.", i.Outcome)
	}
}

func (w *walk) lastAt() time.Time { return w.events[len(w.events)-1].At }

func (w *walk) receipts() {
	for _, r := range w.detail.Receipts {
		if r.Owed {
			continue
		}
		w.say(w.issued(r), "Receipt %s was issued: %s.", r.ID, words(r.Outcome))
	}
}

// clocks is what the clock of the host that signs and the ledger's may differ by, at most.
const clocks = 5 * time.Second

// issued is when a receipt was issued, on the ledger's clock: it was signed in the transaction that wrote down what it is about, by a host
// whose clock may be behind.
func (w *walk) issued(r pawlclient.Receipt) time.Time {
	at, least := r.IssuedAt, clocks
	for _, e := range w.detail.Log {
		switch e.Outcome {
		case "sent", "found", "reconciled", "resolved", "abandoned", "held", "late", "failed_outside", "rejected":
			if behind := e.At.Sub(r.IssuedAt); behind > 0 && behind < least {
				at, least = e.At, behind
			}
		}
	}
	return at
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
