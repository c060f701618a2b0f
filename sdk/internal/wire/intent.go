package wire

import (
	"math"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// FromIntent writes an intent.
func FromIntent(i channel.Intent) *adapterv1.Intent {
	return &adapterv1.Intent{
		RunId: i.RunID, EffectKey: i.EffectKey, Kind: i.Kind, Channel: i.Channel, Payload: i.Payload,
		PayloadDigest: i.PayloadDigest, Lane: i.Lane, CreatedAtNs: nanos(i.CreatedAt),
	}
}

// ToIntent reads an intent.
func ToIntent(m *adapterv1.Intent) channel.Intent {
	return channel.Intent{
		RunID: m.GetRunId(), EffectKey: m.GetEffectKey(), Kind: m.GetKind(), Channel: m.GetChannel(),
		Payload: m.GetPayload(), PayloadDigest: m.GetPayloadDigest(), Lane: m.GetLane(),
		CreatedAt: instant(m.GetCreatedAtNs()),
	}
}

// FromToken writes a token.
func FromToken(t channel.Token) *adapterv1.Token {
	return &adapterv1.Token{
		Version: narrow(t.Version), Data: t.Data, Hint: t.Hint, LifeNs: int64(t.Life),
		ExcludesEarlier: t.ExcludesEarlier, LaneNumber: t.LaneNumber, MadeAtNs: nanos(t.MadeAt), Dead: t.Dead,
	}
}

// ToToken reads a token.
func ToToken(m *adapterv1.Token) channel.Token {
	return channel.Token{
		Version: int(m.GetVersion()), Data: m.GetData(), Hint: m.GetHint(), Life: time.Duration(m.GetLifeNs()),
		ExcludesEarlier: m.GetExcludesEarlier(), LaneNumber: m.GetLaneNumber(), MadeAt: instant(m.GetMadeAtNs()),
		Dead: m.GetDead(),
	}
}

// FromTokens writes every version.
func FromTokens(tokens []channel.Token) []*adapterv1.Token {
	if len(tokens) == 0 {
		return nil
	}
	out := make([]*adapterv1.Token, len(tokens))
	for i, t := range tokens {
		out[i] = FromToken(t)
	}
	return out
}

// ToTokens reads every version.
func ToTokens(messages []*adapterv1.Token) []channel.Token {
	if len(messages) == 0 {
		return nil
	}
	out := make([]channel.Token, len(messages))
	for i, m := range messages {
		out[i] = ToToken(m)
	}
	return out
}

// FromEvidence writes evidence.
func FromEvidence(e channel.Evidence) *adapterv1.Evidence {
	return &adapterv1.Evidence{Id: []byte(e.ID), Detail: e.Detail}
}

// ToEvidence reads evidence.
func ToEvidence(m *adapterv1.Evidence) channel.Evidence {
	return channel.Evidence{ID: string(m.GetId()), Detail: m.GetDetail()}
}

func fromEvidencePointer(e *channel.Evidence) *adapterv1.Evidence {
	if e == nil {
		return nil
	}
	return FromEvidence(*e)
}

func toEvidencePointer(m *adapterv1.Evidence) *channel.Evidence {
	if m == nil {
		return nil
	}
	e := ToEvidence(m)
	return &e
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func narrow(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
