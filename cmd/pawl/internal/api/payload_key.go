package api

import (
	"encoding/json"
	"net/mail"
	"strings"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/ledger"
)

// PayloadKey makes the effect key of a payload whose identity is known: of a mail from recipient, subject and text, of a line in a
// file from the whole value. Errors are [*ledger.InvalidError] with the field payload, or effect_key where none can be made.
func PayloadKey(channelName string, payload []byte) (string, error) {
	kind, _, _ := strings.Cut(channelName, "/")
	switch kind {
	case "mail":
		return mailKey(payload)
	case "file":
		if _, err := canonical.Sum(payload); err != nil {
			return "", wrong("payload", err.Error())
		}
		key, err := canonical.Key(kind, json.RawMessage(payload))
		if err != nil {
			return "", noKey(err)
		}
		return key, nil
	}
	return "", wrong("effect_key", "is missing: a key of kind "+clip(kind)+" cannot be made from the payload; name the effect, as kind:…")
}

func mailKey(payload []byte) (string, error) {
	var m struct{ To, Subject, Text string }
	if err := json.Unmarshal(payload, &m); err != nil {
		return "", wrong("payload", "is no mail: it wants to, subject and text, each a text")
	}
	to, err := mail.ParseAddress(m.To)
	if err != nil {
		return "", wrong("payload.to", "is not one address such as name@example.org")
	}
	key, err := canonical.MailKey([]string{to.Address}, m.Subject, m.Text)
	if err != nil {
		return "", noKey(err)
	}
	return key, nil
}

func noKey(err error) error {
	return wrong("effect_key", "is missing, and none can be made from the payload: "+err.Error())
}

func wrong(field, reason string) error { return &ledger.InvalidError{Field: field, Reason: reason} }

// clip shortens a name for an error.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
