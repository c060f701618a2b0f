package smtp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	gosmtp "github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/core/channel"
)

// maxEvidenceReply bounds the reply that is kept as evidence, in bytes.
const maxEvidenceReply = 4 << 10

// Send makes one mail transaction with one recipient.
func (m *mailer) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	token := a.Token()
	h, err := readHint(token)
	if err != nil {
		return channel.Outcome{}, channel.NotSent(err)
	}
	if err := checkWire(token.Data, h.UTF8); err != nil {
		return channel.Outcome{}, channel.NotSent(fmt.Errorf("the stored message: %w", err))
	}
	s, at, err := m.config.connect(ctx, earlier(ctx, a.NotAfter))
	if err != nil {
		return channel.Outcome{}, m.config.classify(at, err)
	}
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	if at, err := s.envelope(h, len(token.Data)); err != nil {
		s.quit()
		return channel.Outcome{}, m.config.classify(at, withCause(ctx, err))
	}
	reply, at, err := s.message(ctx, token.Data, a.Begin)
	if err != nil {
		s.abort()
		if s.gate.refused != nil {
			return channel.Outcome{}, s.gate.refused // unchanged
		}
		return channel.Outcome{}, m.config.classify(at, err)
	}
	s.quit() // whatever becomes of it: the mail is taken
	return channel.Delivered(m.config.evidence(h, reply)), nil
}

// earlier returns the earlier of the call's deadline and the not-after; zero if there is none.
func earlier(ctx context.Context, notAfter time.Time) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok || !notAfter.IsZero() && notAfter.Before(deadline) {
		return notAfter
	}
	return deadline
}

// envelope speaks MAIL and RCPT.
func (s *session) envelope(h hint, size int) (phase, error) {
	if h.UTF8 {
		if ok, _ := s.client.Extension("SMTPUTF8"); !ok {
			return phaseMail, channel.Rejected("5.6.7",
				errors.New("an address has letters beyond ASCII before the @, and the server does not offer SMTPUTF8"))
		}
	}
	if limit, ok := s.client.MaxMessageSize(); ok && limit > 0 && size > limit {
		return phaseMail, channel.Rejected("5.3.4", fmt.Errorf("the message has %d bytes, the server takes at most %d", size, limit))
	}
	if err := s.client.Mail(h.From, &gosmtp.MailOptions{Size: int64(size), UTF8: h.UTF8}); err != nil {
		return phaseMail, err
	}
	return phaseRecipient, s.client.Rcpt(h.To, nil)
}

// message speaks DATA, writes the message and, if begin agrees, the final dot. The phase says where it failed; phaseDot
// only if the dot may be on the wire.
func (s *session) message(ctx context.Context, raw []byte, begin func() error) (reply string, at phase, err error) {
	data, err := s.client.Data()
	if err == nil {
		s.gate.replyUntil, _ = ctx.Deadline()
		err = s.gate.enterBody(begin)
	}
	if err != nil {
		return "", phaseData, withCause(ctx, err)
	}
	if _, err := data.Write(raw); err != nil {
		return "", phaseBody, withCause(ctx, err)
	}
	response, err := data.CloseWithResponse()
	switch {
	case err == nil:
		return response.StatusText, phaseDot, nil
	case !s.gate.begun.Load():
		return "", phaseBody, withCause(ctx, err)
	}
	return "", phaseDot, withCause(ctx, err)
}

// evidence is what the server gave back. The id is the Message-ID: the mail can be found by it, wherever it is, while
// the server's queue id is somewhere in a text that every server words differently.
func (c *Config) evidence(h hint, reply string) channel.Evidence {
	detail := struct {
		MessageID string `json:"message_id"`
		Reply     string `json:"reply"`
		ReplyRaw  []byte `json:"reply_base64,omitempty"` // if it is not valid text
		Server    string `json:"server"`
		Recipient string `json:"recipient"`
	}{MessageID: h.MessageID, Server: c.address(), Recipient: h.To}
	text := c.account.redact("250 " + reply)
	if len(text) > maxEvidenceReply {
		text = text[:maxEvidenceReply]
	}
	if utf8.ValidString(text) {
		detail.Reply = text
	} else {
		detail.Reply, detail.ReplyRaw = bounded(text), []byte(text)
	}
	b, err := json.Marshal(detail)
	if err != nil { // cannot happen: strings and bytes
		b = nil
	}
	return channel.Evidence{ID: h.MessageID, Detail: b}
}
