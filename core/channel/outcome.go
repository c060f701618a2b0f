package channel

import (
	"fmt"
	"time"
)

// OutcomeKind says what Send saw. The numbers cross the wire and never change.
type OutcomeKind int

const (
	// OutcomeAmbiguous is the zero value: the effect may or may not have happened.
	OutcomeAmbiguous OutcomeKind = 0
	// OutcomeDelivered: the effect is complete, with evidence.
	OutcomeDelivered OutcomeKind = 1
	// OutcomeAccepted: the outside system took it, but it is not final yet.
	OutcomeAccepted OutcomeKind = 2
	// OutcomeFailedOutside: it happened and failed for good (a reverted transaction), with evidence.
	OutcomeFailedOutside OutcomeKind = 3
	// OutcomeSuccessorWanted: nothing was sent; the channel wants another token version first.
	OutcomeSuccessorWanted OutcomeKind = 4
)

// Outcome is what Send saw. Make one with [Delivered], [Accepted], [FailedOutside] or [SuccessorWanted].
type Outcome struct {
	Kind     OutcomeKind
	Evidence Evidence
	// LookAgain is, for an accepted outcome, how long to wait before the first probe. 0: the engine chooses.
	LookAgain time.Duration
	Reason    string // for a person; never parsed
}

// Delivered says that the effect is complete.
func Delivered(e Evidence) Outcome { return Outcome{Kind: OutcomeDelivered, Evidence: e} }

// Accepted says that the outside system has it and that a probe will tell when it is final.
func Accepted(e Evidence, lookAgain time.Duration) Outcome {
	return Outcome{Kind: OutcomeAccepted, Evidence: e, LookAgain: lookAgain}
}

// FailedOutside says that the effect happened and failed for good.
func FailedOutside(e Evidence, reason string) Outcome {
	return Outcome{Kind: OutcomeFailedOutside, Evidence: e, Reason: reason}
}

// SuccessorWanted says that nothing was sent and that a further token version is needed.
func SuccessorWanted(reason string) Outcome {
	return Outcome{Kind: OutcomeSuccessorWanted, Reason: reason}
}

func (k OutcomeKind) String() string {
	switch k {
	case OutcomeAmbiguous:
		return "ambiguous"
	case OutcomeDelivered:
		return "delivered"
	case OutcomeAccepted:
		return "accepted"
	case OutcomeFailedOutside:
		return "failed_outside"
	case OutcomeSuccessorWanted:
		return "successor_wanted"
	}
	return fmt.Sprintf("ambiguous(%d)", int(k))
}
