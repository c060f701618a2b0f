package host

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// shortestSecret is the shortest value that is taken out, in bytes: shorter ones would tear holes into every text.
const shortestSecret = 4

const redacted = "[redacted]"

var secretKey = regexp.MustCompile(`(?i)pass|pwd|bearer|cookie|secret|token|key|credential|private|auth|dsn|mnemonic|seed`)

// newRedactor returns a function that takes the secrets of a configuration out of a text. What counts as a secret:
// every string below a key that looks like one, and the password in any URL.
func newRedactor(config json.RawMessage) func(string) string {
	var document any
	if json.Unmarshal(config, &document) != nil {
		return func(s string) string { return s }
	}
	var secrets []string
	collect(document, false, func(s string) {
		escaped, _ := json.Marshal(s)
		for _, form := range []string{s, strings.Trim(string(escaped), `"`), url.QueryEscape(s)} {
			if len(form) >= shortestSecret && !slices.Contains(secrets, form) {
				secrets = append(secrets, form)
			}
		}
	})
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest first: one may hold another
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, redacted)
	}
	return strings.NewReplacer(pairs...).Replace
}

func collect(value any, secret bool, found func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			collect(inner, secret || secretKey.MatchString(key), found)
		}
	case []any:
		for _, inner := range v {
			collect(inner, secret, found)
		}
	case string:
		if secret {
			found(v)
		} else if u, err := url.Parse(v); err == nil && u.User != nil {
			if password, set := u.User.Password(); set {
				found(password)
			}
		}
	}
}
