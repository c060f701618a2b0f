package channel

import (
	"fmt"
	"time"
)

// FindingKind is the answer of a probe. The numbers cross the wire and never change.
type FindingKind int

const (
	// FindingUnknown is the zero value: the probe failed or could not see far enough.
	FindingUnknown FindingKind = 0
	// FindingSent: the effect is there, complete.
	FindingSent FindingKind = 1
	// FindingAccepted: it is there, not final yet.
	FindingAccepted FindingKind = 2
	// FindingAbsentNow: not seen, may still appear.
	FindingAbsentNow FindingKind = 3
	// FindingAbsentForGood: not there, and it will not appear. The engine checks the time rules and downgrades to
	// absent now; adapters are not trusted with them.
	FindingAbsentForGood FindingKind = 4
	// FindingFailedOutside: it is there and failed for good.
	FindingFailedOutside FindingKind = 5
)

// Match says how sure a sent finding is that it saw this effect and no other.
type Match int

const (
	MatchHeuristic Match = 0 // may mistake another effect for this one
	MatchExact     Match = 1 // the token was seen
)

// Finding is what a probe saw. Make one with [SentFinding], [AcceptedFinding], [AbsentNow], [AbsentForGood] or
// [UnknownFinding].
type Finding struct {
	Kind     FindingKind
	Match    Match
	Evidence Evidence
	// TokenDead says that an absence is proven by itself, whatever the time: every token version can take no effect
	// any more (its nonce was used by another transaction in a final block).
	TokenDead bool
	// Control says that a known effect was looked for in the same probe and found: the probe can see.
	Control   bool
	LookAgain time.Duration // when to look again; 0: the engine chooses
	Reason    string        // for a person; never parsed
}

// SentFinding says that the effect is there.
func SentFinding(m Match, e Evidence) Finding {
	return Finding{Kind: FindingSent, Match: m, Evidence: e}
}

// AcceptedFinding says that the effect is there but not final.
func AcceptedFinding(e Evidence, lookAgain time.Duration) Finding {
	return Finding{Kind: FindingAccepted, Match: MatchExact, Evidence: e, LookAgain: lookAgain}
}

// AbsentNow says that the effect was not seen but may still appear.
func AbsentNow(reason string, control bool) Finding {
	return Finding{Kind: FindingAbsentNow, Reason: reason, Control: control}
}

// AbsentForGood says that the effect is not there and, once the time rules of the sheet are met, never will be.
func AbsentForGood(reason string) Finding {
	return Finding{Kind: FindingAbsentForGood, Reason: reason, Control: true}
}

// UnknownFinding says that the probe could not tell.
func UnknownFinding(reason string) Finding { return Finding{Kind: FindingUnknown, Reason: reason} }

func (k FindingKind) String() string {
	switch k {
	case FindingUnknown:
		return "unknown"
	case FindingSent:
		return "sent"
	case FindingAccepted:
		return "accepted"
	case FindingAbsentNow:
		return "absent_now"
	case FindingAbsentForGood:
		return "absent_for_good"
	case FindingFailedOutside:
		return "failed_outside"
	}
	return fmt.Sprintf("unknown(%d)", int(k))
}
