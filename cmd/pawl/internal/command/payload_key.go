package command

import (
	"encoding/json"
	"net/mail"
	"strings"

	"github.com/pawlworks/pawl/canonical"
)

// payloadKey makes the effect key of a payload whose identity is known.
func payloadKey(channel string, payload []byte) (string, error) {
	kind, _, _ := strings.Cut(channel, "/")
	switch kind {
	case "mail":
		return mailKey(payload)
	case "file":
		if _, err := canonical.Sum(payload); err != nil {
			return "", usage("--payload: %v", err)
		}
		key, err := canonical.Key(kind, json.RawMessage(payload))
		if err != nil {
			return "", usage("--key is missing, and none can be made from the payload: %v", err)
		}
		return key, nil
	}
	return "", usage("--key is missing: a key of kind %s cannot be made from the payload; see: pawl key --help", kind)
}

func mailKey(payload []byte) (string, error) {
	var m struct{ To, Subject, Text string }
	if err := json.Unmarshal(payload, &m); err != nil {
		return "", usage("--payload: is no mail: %v; it wants to, subject and text", err)
	}
	to, err := mail.ParseAddress(m.To)
	if err != nil {
		return "", usage("--payload: to: %q is not one address such as name@example.org", cut(m.To))
	}
	key, err := canonical.MailKey([]string{to.Address}, m.Subject, m.Text)
	if err != nil {
		return "", usage("--key is missing, and none can be made from the payload: %v", err)
	}
	return key, nil
}
