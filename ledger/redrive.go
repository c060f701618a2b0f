package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DuplicatesAcceptable are the words by which a person allows that an effect may take place twice.
const DuplicatesAcceptable = "duplicates are acceptable"

// Redrives claims abandoned intents again.
type Redrives interface {
	// Redrive claims the abandoned intent again under a new key, linked to it, in one transaction. The new key is the old one with
	// "#2" behind it, or the next number. An intent that was redriven before is deduplicated to the one that was made then. What
	// is refused: an intent that has not ended ([*RefusedError]), one that is committed or took effect later, one that is
	// unknown where r.AcceptDuplicates is not [DuplicatesAcceptable], one whose payload was pruned; and whatever Claim refuses. The
	// new claim has the payload, lane and trace of the old one, is due at once, and expires with it if that is still to come.
	Redrive(ctx context.Context, r Redrive) (ClaimResult, error)
	// Links returns what the intent was redriven from and as; empty where there is nothing.
	Links(ctx context.Context, k Key) (of, as string, err error)
}

// Redrive asks for a new claim of an abandoned intent.
type Redrive struct {
	Key
	By, Reason       string // both required
	AcceptDuplicates string
	Approval         *Approval // where the channel requires one: for the new key
}

// Check says what is wrong with the request itself: an [*InvalidError] that names the field.
func (r Redrive) Check() error {
	switch {
	case !uuidForm.MatchString(r.RunID):
		return invalid("run_id", "%q is not a UUID in lower case", cut(r.RunID, 64))
	case strings.TrimSpace(r.By) == "":
		return invalid("by", "is empty; say who redrives")
	case strings.TrimSpace(r.Reason) == "":
		return invalid("reason", "is empty; say why it is to happen after all")
	case r.AcceptDuplicates != "" && r.AcceptDuplicates != DuplicatesAcceptable:
		return invalid("accept_duplicates", "write %q, or leave it out", DuplicatesAcceptable)
	}
	return nil
}

// Allow reports whether the intent, as it was read under its lock, may be claimed again: nil, or a [*RefusedError]. It is for backends.
func (r Redrive) Allow(i Intent, runCancelled bool) error {
	refuse := func(rule, reason string) error { return &RefusedError{"redrive", rule, reason} }
	switch {
	case i.Shadow():
		return refuse("shadow", "it was claimed in shadow: claim its real key")
	case i.Channel == ChannelLocal:
		return refuse("local", "it is a plain Go effect: only its own program can run it again")
	case !i.State.Terminal():
		return refuse("not-ended", "it has not ended ("+i.Outcome()+"); only an abandoned intent is claimed again")
	case i.State == StateCommitted:
		return refuse("committed", "it took effect")
	case len(i.LateEvidence) > 0:
		return refuse("took-effect-later", "it was abandoned and took effect later")
	case !i.PrunedAt.IsZero():
		return refuse("pruned", "its payload was removed at "+stampText(i.PrunedAt)+"; claim a new effect")
	case runCancelled:
		return refuse("run-cancelled", "its run was cancelled: nothing of it is sent any more")
	case i.AbandonedAs == Unknown && r.AcceptDuplicates != DuplicatesAcceptable:
		return refuse("unknown", "nobody knows whether it took effect; to send it all the same, say: "+DuplicatesAcceptable)
	}
	return nil
}

// Again is the claim that the redrive makes, under the number-th key: 2 is the first redrive's. redriven says that the intent is a redrive
// itself: its key then ends with a number. It is an [*InvalidError] where the key has no room for it.
func (r Redrive) Again(i Intent, redriven bool, number int, now time.Time) (Claim, error) {
	base := i.EffectKey
	if redriven {
		base, _ = splitRedriven(base)
	}
	c := Claim{
		RunID: i.RunID, EffectKey: base + "#" + strconv.Itoa(number), Channel: i.Channel, Payload: i.Payload, Lane: i.Lane,
		Approval: r.Approval, TraceParent: i.TraceParent,
	}
	if len(c.EffectKey) > MaxEffectKey {
		return c, invalid("effect_key", "has %d bytes and no room for %q behind it (at most %d); claim the effect under a key of its own",
			len(i.EffectKey), "#"+strconv.Itoa(number), MaxEffectKey)
	}
	if i.ExpiresAt.After(now) {
		c.ExpiresAt = i.ExpiresAt
	}
	return c, nil
}

// NextNumber is the number of the intent's first new key to try.
func (r Redrive) NextNumber(i Intent, redriven bool) int {
	if redriven {
		if _, n := splitRedriven(i.EffectKey); n > 0 {
			return n + 1
		}
	}
	return 2
}

// splitRedriven takes the number off a key that a redrive made.
func splitRedriven(key string) (base string, number int) {
	at := strings.LastIndexByte(key, '#')
	if at < 0 {
		return key, 0
	}
	number, err := strconv.Atoi(key[at+1:])
	if err != nil || number < 2 {
		return key, 0
	}
	return key[:at], number
}

// Entries are the log rows of a redrive: on the old intent and on the new one.
func (r Redrive) Entries(old, made Intent) ([]LogEntry, error) {
	var all []LogEntry
	for _, e := range []struct {
		of     Intent
		detail logDetail
	}{
		{old, logDetail{By: bounded(r.By), Reason: bounded(r.Reason), As: made.EffectKey}},
		{made, logDetail{By: bounded(r.By), Reason: bounded(r.Reason), Of: old.EffectKey}},
	} {
		raw, err := json.Marshal(e.detail)
		if err != nil {
			return nil, fmt.Errorf("write as JSON: %w", err)
		}
		all = append(all, LogEntry{Key: e.of.Key, Attempt: e.of.Attempts, Outcome: LogRedriven, Detail: raw})
	}
	return all, nil
}

// Bounded returns the request with texts that every backend can hold.
func (r Redrive) Bounded() Redrive {
	r.By, r.Reason = bounded(r.By), bounded(r.Reason)
	return r
}

// MaxRedriveKeys bounds how many keys that somebody claimed by hand a redrive passes over.
const MaxRedriveKeys = 1000
