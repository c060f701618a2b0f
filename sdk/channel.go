package sdk

import "github.com/pawlworks/pawl/core/channel"

// The contract, by alias. See package core/channel for each.
type (
	Channel      = channel.Channel
	Sheet        = channel.Sheet
	TokenKind    = channel.TokenKind
	Replay       = channel.Replay
	Strength     = channel.Strength
	Duration     = channel.Duration
	Intent       = channel.Intent
	Token        = channel.Token
	TokenRequest = channel.TokenRequest
	Attempt      = channel.Attempt
	Evidence     = channel.Evidence
	Outcome      = channel.Outcome
	OutcomeKind  = channel.OutcomeKind
	Finding      = channel.Finding
	FindingKind  = channel.FindingKind
	Match        = channel.Match

	NotSentError   = channel.NotSentError
	RejectedError  = channel.RejectedError
	AmbiguousError = channel.AmbiguousError
)

// Values of the sheet and of findings.
const (
	TokenDerived   = channel.TokenDerived
	TokenAllocated = channel.TokenAllocated

	ReplayNever      = channel.ReplayNever
	ReplayWithinLife = channel.ReplayWithinLife
	ReplayForEver    = channel.ReplayForEver

	ProbeNone      = channel.ProbeNone
	ProbeHeuristic = channel.ProbeHeuristic
	ProbeExact     = channel.ProbeExact

	MatchHeuristic = channel.MatchHeuristic
	MatchExact     = channel.MatchExact

	OutcomeAmbiguous       = channel.OutcomeAmbiguous
	OutcomeDelivered       = channel.OutcomeDelivered
	OutcomeAccepted        = channel.OutcomeAccepted
	OutcomeFailedOutside   = channel.OutcomeFailedOutside
	OutcomeSuccessorWanted = channel.OutcomeSuccessorWanted

	FindingUnknown       = channel.FindingUnknown
	FindingSent          = channel.FindingSent
	FindingAccepted      = channel.FindingAccepted
	FindingAbsentNow     = channel.FindingAbsentNow
	FindingAbsentForGood = channel.FindingAbsentForGood
	FindingFailedOutside = channel.FindingFailedOutside
)
