package wire

import (
	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// FromSend writes an attempt as a request to send.
func FromSend(call *adapterv1.Call, a channel.Attempt) *adapterv1.SendRequest {
	return &adapterv1.SendRequest{
		Call: call, Intent: FromIntent(a.Intent), Number: narrow(a.Number), Tokens: FromTokens(a.Tokens),
		FirstSentAtNs: nanos(a.FirstSentAt), LastPossibleSendNs: nanos(a.LastPossibleSend),
		Accepted: fromEvidencePointer(a.Accepted),
	}
}

// FromProbe writes an attempt as a request to probe.
func FromProbe(call *adapterv1.Call, a channel.Attempt) *adapterv1.ProbeRequest {
	return &adapterv1.ProbeRequest{
		Call: call, Intent: FromIntent(a.Intent), Number: narrow(a.Number), Tokens: FromTokens(a.Tokens),
		FirstSentAtNs: nanos(a.FirstSentAt), LastPossibleSendNs: nanos(a.LastPossibleSend),
		Accepted: fromEvidencePointer(a.Accepted),
	}
}

type attemptMessage interface {
	GetCall() *adapterv1.Call
	GetIntent() *adapterv1.Intent
	GetNumber() int32
	GetTokens() []*adapterv1.Token
	GetFirstSentAtNs() int64
	GetLastPossibleSendNs() int64
	GetAccepted() *adapterv1.Evidence
}

// ToAttempt reads a request to send or to probe. BeginFunc is left nil.
func ToAttempt(m attemptMessage) channel.Attempt {
	return channel.Attempt{
		Intent: ToIntent(m.GetIntent()), Number: int(m.GetNumber()), Tokens: ToTokens(m.GetTokens()),
		NotAfter:    instant(m.GetCall().GetNotAfterWallNs()),
		FirstSentAt: instant(m.GetFirstSentAtNs()), LastPossibleSend: instant(m.GetLastPossibleSendNs()),
		Accepted: toEvidencePointer(m.GetAccepted()),
	}
}

// FromTokenRequest writes a request for a token.
func FromTokenRequest(call *adapterv1.Call, r channel.TokenRequest) *adapterv1.IdempotencyTokenRequest {
	return &adapterv1.IdempotencyTokenRequest{
		Call: call, Intent: FromIntent(r.Intent), Version: narrow(r.Version), Earlier: FromTokens(r.Earlier),
		LaneNumber: r.LaneNumber,
	}
}

// ToTokenRequest reads a request for a token.
func ToTokenRequest(m *adapterv1.IdempotencyTokenRequest) channel.TokenRequest {
	return channel.TokenRequest{
		Intent: ToIntent(m.GetIntent()), Version: int(m.GetVersion()), Earlier: ToTokens(m.GetEarlier()),
		LaneNumber: m.GetLaneNumber(),
	}
}
