package smtp

import (
	"encoding/json"

	"github.com/pawlworks/pawl/sdk"
)

// Adapter is what a program hands to [sdk.Main].
func Adapter() sdk.Adapter {
	return sdk.Adapter{
		Sheet: Sheet(),
		New:   New,
		ConfigExample: json.RawMessage(`{
  "host": "mail.example.org", "tls": "starttls", "username": "pawl", "password_file": "/run/secrets/mail",
  "from": "Example <hello@example.org>",
  "imap": {"host": "mail.example.org", "username": "journal", "password_file": "/run/secrets/journal"}
}`),
	}
}
