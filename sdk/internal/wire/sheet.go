package wire

import (
	"math"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// FromSheet writes a capability sheet.
func FromSheet(s channel.Sheet) *adapterv1.Sheet {
	return &adapterv1.Sheet{
		Kind: Text(s.Kind), Version: Text(s.Version), Token: tokenKinds[s.Token], Replay: replays[s.Replay],
		TokenLifeNs: int64(s.TokenLife), Probe: strengths[s.Probe], NegativeProof: s.NegativeProof, Begin: s.Begin,
		SettleTimeNs: int64(s.SettleTime), ProbeHorizonNs: int64(s.ProbeHorizon), MayAccept: s.MayAccept,
		FinalWithinNs: int64(s.FinalWithin), AcceptedFreesLane: s.AcceptedFreesLane, LaneRequired: s.LaneRequired,
		LaneNumbers: s.LaneNumbers, EvidenceNamesOneEffect: s.EvidenceNamesOneEffect,
		MaxPayload: int64(s.MaxPayload), MaxInFlight: int64(s.MaxInFlight), RatePerMinute: int64(s.RatePerMinute),
		PayloadSchema: s.PayloadSchema, FindsWithoutToken: s.FindsWithoutToken,
	}
}

// ToSheet reads a capability sheet. Values that are not known are left empty, which [channel.Sheet.Normal] reads as
// the weakest.
func ToSheet(m *adapterv1.Sheet) channel.Sheet {
	return channel.Sheet{
		Kind: m.GetKind(), Version: m.GetVersion(), Token: invert(tokenKinds, m.GetToken()),
		Replay: invert(replays, m.GetReplay()), TokenLife: channel.Duration(m.GetTokenLifeNs()),
		Probe: invert(strengths, m.GetProbe()), NegativeProof: m.GetNegativeProof(), Begin: m.GetBegin(),
		SettleTime: channel.Duration(m.GetSettleTimeNs()), ProbeHorizon: channel.Duration(m.GetProbeHorizonNs()),
		MayAccept: m.GetMayAccept(), FinalWithin: channel.Duration(m.GetFinalWithinNs()),
		AcceptedFreesLane: m.GetAcceptedFreesLane(), LaneRequired: m.GetLaneRequired(),
		LaneNumbers: m.GetLaneNumbers(), EvidenceNamesOneEffect: m.GetEvidenceNamesOneEffect(),
		MaxPayload: size(m.GetMaxPayload()), MaxInFlight: size(m.GetMaxInFlight()),
		RatePerMinute: size(m.GetRatePerMinute()), PayloadSchema: m.GetPayloadSchema(),
		FindsWithoutToken: m.GetFindsWithoutToken(),
	}
}

var (
	tokenKinds = map[channel.TokenKind]adapterv1.TokenKind{
		channel.TokenDerived:   adapterv1.TokenKind_TOKEN_KIND_DERIVED,
		channel.TokenAllocated: adapterv1.TokenKind_TOKEN_KIND_ALLOCATED,
	}
	replays = map[channel.Replay]adapterv1.Replay{
		channel.ReplayNever:      adapterv1.Replay_REPLAY_NEVER,
		channel.ReplayWithinLife: adapterv1.Replay_REPLAY_WITHIN_LIFE,
		channel.ReplayForEver:    adapterv1.Replay_REPLAY_FOR_EVER,
	}
	strengths = map[channel.Strength]adapterv1.Strength{
		channel.ProbeNone:      adapterv1.Strength_STRENGTH_NONE,
		channel.ProbeHeuristic: adapterv1.Strength_STRENGTH_HEURISTIC,
		channel.ProbeExact:     adapterv1.Strength_STRENGTH_EXACT,
	}
)

func invert[K ~string, V comparable](names map[K]V, value V) K {
	for k, v := range names {
		if v == value {
			return k
		}
	}
	return ""
}

func size(n int64) int { return int(min(max(n, 0), math.MaxInt32)) }
