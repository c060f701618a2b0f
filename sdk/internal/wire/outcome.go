package wire

import (
	"time"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// FromOutcome writes an outcome.
func FromOutcome(o channel.Outcome) *adapterv1.Outcome {
	kind := adapterv1.OutcomeKind(narrow(int(o.Kind)))
	if _, known := adapterv1.OutcomeKind_name[int32(kind)]; !known {
		kind = adapterv1.OutcomeKind_OUTCOME_KIND_AMBIGUOUS
	}
	return &adapterv1.Outcome{
		Kind: kind, Evidence: FromEvidence(o.Evidence), LookAgainNs: int64(o.LookAgain), Reason: Text(o.Reason),
	}
}

// ToOutcome reads an outcome. A kind that is not known is ambiguous.
func ToOutcome(m *adapterv1.Outcome) channel.Outcome {
	o := channel.Outcome{
		Evidence: ToEvidence(m.GetEvidence()), LookAgain: time.Duration(m.GetLookAgainNs()), Reason: Text(m.GetReason()),
	}
	switch kind := channel.OutcomeKind(m.GetKind()); kind {
	case channel.OutcomeDelivered, channel.OutcomeAccepted, channel.OutcomeFailedOutside, channel.OutcomeSuccessorWanted:
		o.Kind = kind
	}
	return o
}

// FromFinding writes a finding.
func FromFinding(f channel.Finding) *adapterv1.Finding {
	kind := adapterv1.FindingKind(narrow(int(f.Kind)))
	if _, known := adapterv1.FindingKind_name[int32(kind)]; !known {
		kind = adapterv1.FindingKind_FINDING_KIND_UNKNOWN
	}
	match := adapterv1.Match_MATCH_HEURISTIC
	if f.Match == channel.MatchExact {
		match = adapterv1.Match_MATCH_EXACT
	}
	return &adapterv1.Finding{
		Kind: kind, Match: match, Evidence: FromEvidence(f.Evidence), TokenDead: f.TokenDead, Control: f.Control,
		LookAgainNs: int64(f.LookAgain), Reason: Text(f.Reason),
	}
}

// ToFinding reads a finding. A kind that is not known is unknown, and proves nothing.
func ToFinding(m *adapterv1.Finding) channel.Finding {
	f := channel.Finding{
		Evidence: ToEvidence(m.GetEvidence()), TokenDead: m.GetTokenDead(), Control: m.GetControl(),
		LookAgain: time.Duration(m.GetLookAgainNs()), Reason: Text(m.GetReason()),
	}
	if m.GetMatch() == adapterv1.Match_MATCH_EXACT {
		f.Match = channel.MatchExact
	}
	switch kind := channel.FindingKind(m.GetKind()); kind {
	case channel.FindingSent, channel.FindingAccepted, channel.FindingAbsentNow, channel.FindingAbsentForGood,
		channel.FindingFailedOutside:
		f.Kind = kind
	default:
		f.TokenDead, f.Control = false, false
	}
	return f
}
