package mailbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"strings"
	"time"

	"github.com/emersion/go-message"
)

// Delivery is one accepted mail for one recipient.
type Delivery struct {
	Seq       int       `json:"seq"` // from 1, in the order of acceptance
	MessageID string    `json:"message_id"`
	Sender    string    `json:"sender"` // of the envelope
	Recipient string    `json:"recipient"`
	Digest    string    `json:"digest"` // bare hex SHA-256 of Raw
	At        time.Time `json:"at"`
	Raw       []byte    `json:"raw"` // the message as it came over the wire
}

// newDelivery describes a message; the store gives it its number.
func newDelivery(sender, recipient string, raw []byte, at time.Time) Delivery {
	sum := sha256.Sum256(raw)
	d := Delivery{Sender: sender, Recipient: recipient, Digest: hex.EncodeToString(sum[:]), At: at, Raw: raw}
	if entity, err := message.Read(bytes.NewReader(raw)); entity != nil && (err == nil || message.IsUnknownCharset(err)) {
		d.MessageID = strings.Trim(strings.TrimSpace(entity.Header.Get("Message-Id")), "<>")
	}
	return d
}

// Contains reports whether the decoded subject or one of the decoded parts contains the marker.
func (d Delivery) Contains(marker string) bool {
	if bytes.Contains(d.Raw, []byte(marker)) {
		return true
	}
	entity, err := message.Read(bytes.NewReader(d.Raw))
	if entity == nil || (err != nil && !message.IsUnknownCharset(err)) {
		return false
	}
	decoder := mime.WordDecoder{}
	if subject, err := decoder.DecodeHeader(entity.Header.Get("Subject")); err == nil && strings.Contains(subject, marker) {
		return true
	}
	found := false
	_ = entity.Walk(func(_ []int, part *message.Entity, err error) error {
		if err != nil || part == nil || part.MultipartReader() != nil {
			return nil
		}
		body, err := io.ReadAll(part.Body)
		if err == nil && bytes.Contains(body, []byte(marker)) {
			found = true
		}
		return nil
	})
	return found
}

// Deliveries returns everything accepted so far, in order.
func (m *Mailbox) Deliveries() []Delivery { return m.store.all() }

// Count returns how many accepted mails carry the Message-ID (without angle brackets).
func (m *Mailbox) Count(messageID string) int {
	n := 0
	for _, d := range m.store.all() {
		if d.MessageID == strings.Trim(messageID, "<>") {
			n++
		}
	}
	return n
}

// CountContaining returns how many accepted mails contain the marker in subject or body.
func (m *Mailbox) CountContaining(marker string) int {
	n := 0
	for _, d := range m.store.all() {
		if d.Contains(marker) {
			n++
		}
	}
	return n
}
