package smtp

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
)

// hidden takes the place of a secret in a text.
const hidden = "(hidden)"

// password is a secret given in one of three ways.
type password struct {
	Value string // the key password
	File  string // the key password_file; a trailing line end is dropped
	Env   string // the key password_env
}

// given counts the ways that are used.
func (p password) given() int {
	n := 0
	for _, v := range []string{p.Value, p.File, p.Env} {
		if v != "" {
			n++
		}
	}
	return n
}

func (p password) validate(prefix string) error {
	if p.given() > 1 {
		return fmt.Errorf("%spassword, %spassword_file and %spassword_env exclude each other: keep one", prefix, prefix, prefix)
	}
	return nil
}

// read returns the secret.
func (p password) read(prefix string) (string, error) {
	switch {
	case p.File != "":
		b, err := os.ReadFile(p.File)
		if err != nil {
			return "", fmt.Errorf("%spassword_file: %w", prefix, err)
		}
		secret := strings.TrimRight(string(b), "\r\n")
		if secret == "" {
			return "", fmt.Errorf("%spassword_file %s is empty", prefix, p.File)
		}
		return secret, nil
	case p.Env != "":
		secret := os.Getenv(p.Env)
		if secret == "" {
			return "", fmt.Errorf("%spassword_env: the variable %s is not set in the adapter's environment", prefix, p.Env)
		}
		return secret, nil
	}
	return p.Value, nil
}

// account is a user name with its password, or with its access tokens.
type account struct {
	username, password string
	tokens             *tokens
}

// String shows where a server is, without secrets. It also stands for the whole [Config] and [IMAP].
func (s Server) String() string { return fmt.Sprintf("%s as %q, %s", s.address(), s.Username, s.TLS) }

// GoString is String.
func (s Server) GoString() string { return s.String() }

// LogValue is String.
func (s Server) LogValue() slog.Value { return slog.StringValue(s.String()) }

// redact removes the secrets from a text that an outside system wrote: a server may echo what it was told.
func (a account) redact(text string) string {
	for _, secret := range a.secrets() {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// secrets are the account's, in each form in which they go over the wire; the longer ones come first.
func (a account) secrets() []string {
	if a.tokens != nil {
		var all []string
		for _, token := range a.tokens.known() {
			all = append(all, shown(a.username, token)...)
		}
		slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) })
		return all
	}
	if a.password == "" {
		return nil
	}
	plain := []byte("\x00" + a.username + "\x00" + a.password)
	return []string{base64.StdEncoding.EncodeToString(plain), base64.StdEncoding.EncodeToString([]byte(a.password)), a.password}
}
