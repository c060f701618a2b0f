package smtp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// kind is the prefix of effect keys.
const kind = "mail"

// Sheet is the most that a channel of this kind can claim: that of a channel with a probe into the server's own store.
// A configured channel claims what its configuration allows; see [mailer.Sheet].
func Sheet() channel.Sheet {
	return channel.Sheet{
		Kind:                   kind,
		Version:                "1.0.0",
		Token:                  channel.TokenAllocated,
		Replay:                 channel.ReplayNever,
		Probe:                  channel.ProbeExact,
		NegativeProof:          true,
		Begin:                  true,
		SettleTime:             channel.Duration(DefaultServerSessionTimeout),
		EvidenceNamesOneEffect: true,
		FindsWithoutToken:      true, // the Message-ID follows from the intent
		MaxPayload:             maxPayload,
		MaxInFlight:            DefaultMaxInFlight,
		PayloadSchema:          json.RawMessage(schema),
	}
}

// mailer is one channel. It keeps nothing open between calls.
type mailer struct {
	config *Config
}

var _ channel.Channel = (*mailer)(nil)

// New makes a channel. The configuration is that of [Config], as JSON. It connects to nothing.
func New(_ context.Context, raw json.RawMessage) (channel.Channel, error) {
	config, err := parseConfig(raw)
	if err != nil {
		return nil, err
	}
	return &mailer{config: config}, nil
}

// Sheet is what this channel claims, given its configuration.
func (m *mailer) Sheet() channel.Sheet {
	s := Sheet()
	s.SettleTime = m.config.ServerSessionTimeout
	s.MaxInFlight = m.config.MaxInFlight
	imap := m.config.IMAP
	if imap == nil {
		s.Probe, s.NegativeProof = channel.ProbeNone, false
		return s
	}
	s.NegativeProof = imap.StoredBeforeReply
	s.ProbeHorizon = imap.KeptFor
	return s
}

// IdempotencyToken makes the complete message and its envelope.
func (m *mailer) IdempotencyToken(_ context.Context, request channel.TokenRequest) (channel.Token, error) {
	l, err := m.config.read(request.Intent.Payload)
	if err != nil {
		return channel.Token{}, channel.Rejected("", err)
	}
	date := request.Intent.CreatedAt
	if date.IsZero() {
		date = time.Now()
	}
	h := hint{MessageID: messageID(request.Intent, m.config.Domain), From: l.from.addr(), To: l.to.addr(), UTF8: l.needsUTF8()}
	if m.config.ReturnPath != "" {
		h.From = m.config.returnPath.addr()
		h.UTF8 = h.UTF8 || m.config.returnPath.needsUTF8()
	}
	raw, err := compose(l, h.MessageID, date)
	if err != nil {
		return channel.Token{}, channel.Rejected("", fmt.Errorf("compose the message: %w", err))
	}
	if len(raw) > maxMessage {
		return channel.Token{}, channel.Rejected("", fmt.Errorf("the message has %d bytes, at most %d fit: encoded text can grow threefold, send it as an attachment", len(raw), maxMessage))
	}
	encoded, err := json.Marshal(h)
	if err != nil {
		return channel.Token{}, fmt.Errorf("encode the hint: %w", err)
	}
	return channel.Token{Version: request.Version, Data: raw, Hint: encoded}, nil
}
