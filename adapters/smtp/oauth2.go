package smtp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
)

// OAuth2 says where access tokens come from: from a file that another program keeps fresh, or from a token endpoint.
type OAuth2 struct {
	// TokenFile holds an access token. It is read anew for each authentication.
	TokenFile string `json:"token_file"`
	// TokenURL is the endpoint that gives an access token for a refresh token (RFC 6749 section 6).
	TokenURL         string `json:"token_url"`
	ClientID         string `json:"client_id"`
	ClientSecretFile string `json:"client_secret_file"` // empty: a public client
	// RefreshTokenFile holds the refresh token. One that the endpoint gives in its place is written there.
	RefreshTokenFile string `json:"refresh_token_file"`
	Scope            string `json:"scope"` // empty: as it was granted
}

// endpoint reports whether tokens come from an endpoint.
func (o OAuth2) endpoint() bool {
	return o.TokenURL != "" || o.ClientID != "" || o.ClientSecretFile != "" || o.RefreshTokenFile != "" || o.Scope != ""
}

func (o OAuth2) validate(prefix string) error {
	prefix += "oauth2."
	switch {
	case o.TokenFile != "" && o.endpoint():
		return fmt.Errorf("%stoken_file and an endpoint exclude each other: keep %stoken_file, or %stoken_url with its keys", prefix, prefix, prefix)
	case o.TokenFile != "":
		return nil
	case !o.endpoint():
		return fmt.Errorf("%stoken_file is missing: name a file with an access token, or give %stoken_url, client_id and refresh_token_file", prefix, prefix)
	}
	var faults []error
	for _, needed := range []struct{ key, value string }{
		{"token_url", o.TokenURL}, {"client_id", o.ClientID}, {"refresh_token_file", o.RefreshTokenFile},
	} {
		if needed.value == "" {
			faults = append(faults, fmt.Errorf("%s%s is missing: an endpoint needs token_url, client_id and refresh_token_file", prefix, needed.key))
		}
	}
	if o.TokenURL != "" && !safeEndpoint(o.TokenURL) {
		faults = append(faults, fmt.Errorf("%stoken_url must be an https:// URL without user and fragment: secrets are sent there", prefix))
	}
	return errors.Join(faults...)
}

// safeEndpoint allows TLS, and the clear within this host.
func safeEndpoint(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && ip != nil && ip.IsLoopback()
}

// secretFile reads a token. A missing file needs a person; an empty one may be about to be written.
func secretFile(key, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", errSetting{fmt.Errorf("%s: %w", key, err)}
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("%s %s is empty", key, path)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errSetting{fmt.Errorf("%s %s holds more than one word of printable ASCII: put the token in it and nothing else", key, path)}
	}
	return secret, nil
}

// mechanisms are the ways to show a token, the one that more servers know first.
func mechanisms() []string { return []string{xoauth2, oauthBearer} }

// chooseMechanism takes the first that the server offers.
func chooseMechanism(offers func(string) bool) (string, error) {
	all := mechanisms()
	if i := slices.IndexFunc(all, offers); i >= 0 {
		return all[i], nil
	}
	return "", errSetting{errors.New("the server offers neither AUTH XOAUTH2 nor AUTH OAUTHBEARER on this connection")}
}
