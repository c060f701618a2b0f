package receipt

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawlworks/pawl/canonical"
)

// Outcome is what became of an intent, as far as one receipt says.
type Outcome string

// The outcomes that get a receipt.
const (
	Committed Outcome = "committed" // the effect happened, by evidence or a person's word
	Held      Outcome = "held"      // it may have happened; a person has to look
	Abandoned Outcome = "abandoned" // nothing more will be sent; AbandonedAs says what is known
	Late      Outcome = "late"      // evidence arrived after the intent had ended
)

// Established is how the outcome became known.
type Established string

// The ways to know an outcome.
const (
	BySend   Established = "send"   // the typed answer to the send
	ByProbe  Established = "probe"  // a finding of a later probe
	ByPerson Established = "person" // a named person's decision
	ByLate   Established = "late"   // evidence from a worker whose fence was gone
)

// AbandonedAs is what is known of an abandoned intent's effect.
type AbandonedAs string

// The kinds of abandonment.
const (
	NeverSent     AbandonedAs = "never_sent"     // proven: nothing went out
	Refused       AbandonedAs = "refused"        // the outside system said no for good
	FailedOutside AbandonedAs = "failed_outside" // it happened outside and failed for good
	Unknown       AbandonedAs = "unknown"        // it may have happened: do not retry
)

// Effect holds the facts of one receipt, as the ledger knows them. Texts are
// UTF-8; times are converted to UTC and kept to the microsecond.
type Effect struct {
	Outcome   Outcome
	RunID     string // required
	EffectKey string // required; the subject of the receipt
	Channel   string // required; the configured channel, e.g. "mail/marketing"
	Kind      string // required; what the adapter speaks, e.g. "mail"

	PayloadDigest string          // required; stamped digest of the payload that was approved and sent
	ExternalRef   json.RawMessage // evidence of the outside system; empty if there is none
	TokenDigest   string          // digest of the stored token; empty if none was made
	Approval      json.RawMessage // approval reference; empty if none was needed

	Established Established // required unless held or abandoned
	By          string      // who decided; required when Established is ByPerson
	Reason      string      // hold or abandon reason, or the person's reason
	AbandonedAs AbandonedAs // required when abandoned; the earlier ending when late

	Attempt     int   // stamped tries to send
	Starts      int   // fencings
	FenceNumber int64 // fence under which the outcome was written
	LedgerEpoch int64
	LedgerID    string // required

	CreatedAt   time.Time // claim; required
	FirstSentAt time.Time // first stamp; zero if never stamped
	SentAt      time.Time // newest stamp; zero if never stamped
	At          time.Time // the outcome (committed, held, abandoned, late evidence stored); required
}

const (
	// maxText bounds identifiers in bytes: beyond it a key is no identifier.
	maxText = 4 << 10
	// maxReason bounds free text in bytes; longer reasons are cut, not refused.
	maxReason = 4 << 10
	// maxExact is the largest integer that every JSON reader keeps (2^53 - 1).
	maxExact = 1<<53 - 1
)

// validate reports the first field that no receipt can carry.
func (e Effect) validate() error {
	switch e.Outcome {
	case Committed, Held, Abandoned, Late:
	default:
		return fault("Outcome", "must be committed, held, abandoned or late")
	}
	for _, t := range []struct {
		field, value string
		required     bool
	}{
		{"RunID", e.RunID, true},
		{"EffectKey", e.EffectKey, true},
		{"Channel", e.Channel, true},
		{"Kind", e.Kind, true},
		{"PayloadDigest", e.PayloadDigest, true},
		{"LedgerID", e.LedgerID, true},
		{"TokenDigest", e.TokenDigest, false},
		{"By", e.By, e.Established == ByPerson},
	} {
		if err := checkText(t.field, t.value, t.required); err != nil {
			return err
		}
	}
	digest, err := canonical.ParseDigest(e.PayloadDigest)
	if err != nil {
		return &IssueError{Field: "PayloadDigest", Problem: "is not a digest", Err: err}
	}
	if digest.Stamped() != e.PayloadDigest {
		return fault("PayloadDigest", "must be in the stamped form "+canonical.Algorithm+":<hex>")
	}
	if err := e.validateEnding(); err != nil {
		return err
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"Attempt", int64(e.Attempt)},
		{"Starts", int64(e.Starts)},
		{"FenceNumber", e.FenceNumber},
		{"LedgerEpoch", e.LedgerEpoch},
	} {
		if n.value < 0 || n.value > maxExact {
			return fault(n.field, fmt.Sprintf("must be between 0 and %d", int64(maxExact)))
		}
	}
	return e.validateTimes()
}

func (e Effect) validateEnding() error {
	switch e.Established {
	case BySend, ByProbe, ByPerson, ByLate:
	case "":
		if e.Outcome == Committed || e.Outcome == Late {
			return fault("Established", "must say how the outcome is known: send, probe, person or late")
		}
	default:
		return fault("Established", "must be send, probe, person or late")
	}
	switch e.AbandonedAs {
	case NeverSent, Refused, FailedOutside, Unknown:
		if e.Outcome != Abandoned && e.Outcome != Late {
			return fault("AbandonedAs", "must be empty unless the outcome is abandoned or late")
		}
	case "":
		if e.Outcome == Abandoned {
			return fault("AbandonedAs", "must be never_sent, refused, failed_outside or unknown")
		}
	default:
		return fault("AbandonedAs", "must be never_sent, refused, failed_outside or unknown")
	}
	return nil
}

func (e Effect) validateTimes() error {
	for _, t := range []struct {
		field    string
		value    time.Time
		required bool
	}{
		{"CreatedAt", e.CreatedAt, true},
		{"FirstSentAt", e.FirstSentAt, false},
		{"SentAt", e.SentAt, false},
		{"At", e.At, true},
	} {
		if t.value.IsZero() {
			if t.required {
				return fault(t.field, "must be set")
			}
			continue
		}
		if year := t.value.UTC().Year(); year < 1 || year > 9999 {
			return fault(t.field, "must be between the years 1 and 9999")
		}
	}
	return nil
}

func checkText(field, value string, required bool) error {
	switch {
	case value == "" && required:
		return fault(field, "must not be empty")
	case len(value) > maxText:
		return fault(field, fmt.Sprintf("must not be longer than %d bytes", maxText))
	case !utf8.ValidString(value):
		return fault(field, "must be valid UTF-8")
	}
	return nil
}
