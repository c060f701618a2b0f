package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// outcome tells what one row of the log says, in a sentence.
func (w *walk) outcome(e pawlclient.LogEntry, k kept, owner string) {
	at, n, why := e.At, e.Attempt, because(k.Reason)
	switch e.Outcome {
	case "deduped":
		w.say(at, "It was claimed again with the same payload: nothing more is sent for that.")
	case "fenced":
		w.say(at, "It was set aside to be looked into before anything is sent: %s", ended(strings.TrimPrefix(k.Reason, "taken for probing: ")))
	case "sent":
		w.say(at, "Attempt %d went through: the outside system took it%s%s.", n, w.id(), why)
	case "accepted":
		if k.ProbeBegan.IsZero() {
			w.say(at, "Attempt %d was accepted by the outside system%s; it is not final yet.", n, idOf(k.Evidence))
			return
		}
		w.say(at, "A look at the outside system found it there, not final yet%s.", why)
	case "not_sent":
		if n > w.before {
			w.say(at, "Attempt %d certainly took no effect%s. It may go again.", n, why)
			return
		}
		w.say(at, "Nothing was sent%s. It may go again.", why)
	case "rejected":
		w.say(at, "The outside system refused it for good%s.", why)
	case "failed_outside":
		w.say(at, "It happened on the outside system and failed there for good%s.", why)
	case "ambiguous":
		w.say(at, "Attempt %d was sent, and no clear answer came%s: it may have taken effect.", n, why)
	case "found":
		w.say(at, "%s asked the outside system and found the effect there%s%s. Nothing was sent again; it is committed.", w.engine(owner), w.id(), why)
	case "absent_now":
		w.say(at, "A look at the outside system did not see it%s. That proves nothing yet: it may still appear.", why)
	case "absent_for_good":
		w.say(at, "A look at the outside system proved that it is not there%s.", why)
	case "unknown":
		w.say(at, "A look at the outside system settled nothing%s.", why)
	case "reconciled":
		w.say(at, "That evidence settled it: committed%s.", idOf(k.Evidence))
	case "reopened":
		w.reopened(e, k)
	case "held":
		w.say(at, "It was left for a person%s.", why)
	case "resolved":
		w.say(at, "%s decided: %s%s.", somebody(k.By), decision(k.As), why)
	case "abandoned":
		w.say(at, "It was given up as %s%s.", words(k.As), why)
	case "late":
		number, from := ownerOf(k.Fence)
		w.say(at, "Word came late from %s, whose fence %s was gone: %s%s.", lower(w.engine(from)), number, strings.TrimSpace(words(k.Reason)), idOf(k.Evidence))
	default:
		w.say(at, "%s%s.", words(e.Outcome), why)
	}
}

// reopened says why it may be sent again.
func (w *walk) reopened(e pawlclient.LogEntry, k kept) {
	switch k.Proof {
	case "no_stamp":
		if w.owner != "" {
			w.say(e.At, "%s had died or lost touch with the ledger%s before it began an attempt: nothing was sent. It may be taken again.", w.engine(w.owner), w.lastSeen(w.owner))
			return
		}
		w.say(e.At, "Nothing had been sent%s. It may be taken again.", because(k.Reason))
	case "absent_for_good":
		began := ""
		if !k.ProbeBegan.IsZero() {
			began = " that began at " + k.ProbeBegan.UTC().Format("15:04:05.000")
		}
		w.say(e.At, "A look at the outside system%s proved that no attempt took effect%s. It may be sent again.", began, because(strings.TrimPrefix(k.Reason, "the probe proved that it was not sent: ")))
	case "replay_safe":
		w.say(e.At, "The same bytes may go again: the outside system takes them once, however often they come.")
	case "resend":
		w.say(e.At, "By the channel's policy it is sent again, although it may have taken effect: a duplicate is possible%s.", because(strings.TrimPrefix(k.Reason, "sent again by policy: ")))
	default:
		w.say(e.At, "It may be sent again%s.", because(k.Reason))
	}
}

// id names the effect on the outside system.
func (w *walk) id() string { return idOf(w.detail.Intent.Evidence) }

func idOf(evidence json.RawMessage) string {
	var e struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(evidence, &e) != nil || e.ID == "" {
		return ""
	}
	return fmt.Sprintf(", as %s", e.ID)
}

// because puts a reason behind a sentence.
func because(reason string) string {
	reason = strings.TrimRight(strings.TrimSpace(reason), ".;:, ")
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func ended(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func somebody(by string) string {
	if by == "" {
		return "Somebody"
	}
	return by
}

func decision(as string) string {
	switch as {
	case "sent":
		return "it took effect"
	case "notsent":
		return "it did not take effect and never will"
	case "retry":
		return "it did not take effect, and is to be sent again"
	case "unknown":
		return "nobody will know what became of it"
	}
	return as
}

func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
