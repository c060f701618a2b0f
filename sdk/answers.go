package sdk

import (
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// Delivered says that the effect is complete.
func Delivered(e Evidence) Outcome { return channel.Delivered(e) }

// Accepted says that the outside system has it and that a probe will tell when it is final.
func Accepted(e Evidence, lookAgain time.Duration) Outcome { return channel.Accepted(e, lookAgain) }

// FailedOutside says that the effect happened and failed for good.
func FailedOutside(e Evidence, reason string) Outcome { return channel.FailedOutside(e, reason) }

// SuccessorWanted says that nothing was sent and that a further token version is needed.
func SuccessorWanted(reason string) Outcome { return channel.SuccessorWanted(reason) }

// SentFinding says that the effect is there.
func SentFinding(m Match, e Evidence) Finding { return channel.SentFinding(m, e) }

// AcceptedFinding says that the effect is there but not final.
func AcceptedFinding(e Evidence, lookAgain time.Duration) Finding {
	return channel.AcceptedFinding(e, lookAgain)
}

// AbsentNow says that the effect was not seen but may still appear.
func AbsentNow(reason string, control bool) Finding { return channel.AbsentNow(reason, control) }

// AbsentForGood says that the effect is not there and, once the time rules of the sheet are met, never will be.
func AbsentForGood(reason string) Finding { return channel.AbsentForGood(reason) }

// UnknownFinding says that the probe could not tell.
func UnknownFinding(reason string) Finding { return channel.UnknownFinding(reason) }

// NotSent wraps err as proof that nothing was sent.
func NotSent(err error) error { return channel.NotSent(err) }

// Rejected wraps err as a final refusal; code is the outside system's own.
func Rejected(code string, err error) error { return channel.Rejected(code, err) }

// Ambiguous wraps err as "may have happened"; phase names where certainty ended.
func Ambiguous(phase string, err error) error { return channel.Ambiguous(phase, err) }

// ProvenNotSent reports whether err proves that the attempt had no effect and will have none.
func ProvenNotSent(err error) bool { return channel.ProvenNotSent(err) }
