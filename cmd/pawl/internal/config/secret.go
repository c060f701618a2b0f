package config

import (
	"log/slog"
	"net/url"
	"strings"
)

const (
	hidden         = "(hidden)"
	schemeSQLite   = "sqlite:"
	schemePostgres = "postgres://"
	// schemePostgresql is the other spelling that Postgres itself takes.
	schemePostgresql = "postgresql://"
)

// Secret is JSON that may hold secrets. It prints as "(hidden)" everywhere; [Secret.Reveal] returns it.
type Secret []byte

// Reveal returns the JSON.
func (s Secret) Reveal() []byte { return s }

func (s Secret) String() string               { return hidden }
func (s Secret) GoString() string             { return hidden }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// URL names a ledger. It prints without its password; [URL.Reveal] returns it whole.
type URL string

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return string(u) }

// SQLite returns the path of an embedded ledger, and whether the URL names one.
func (u URL) SQLite() (path string, ok bool) { return strings.CutPrefix(string(u), schemeSQLite) }

// Postgres reports whether the URL names a Postgres.
func (u URL) Postgres() bool {
	return strings.HasPrefix(string(u), schemePostgres) || strings.HasPrefix(string(u), schemePostgresql)
}

func (u URL) String() string {
	if !u.Postgres() {
		if _, ok := u.SQLite(); ok || u == "" {
			return string(u)
		}
		return hidden // of no known form: anything may be in it
	}
	parsed, err := url.Parse(string(u))
	if err != nil {
		return schemePostgres + hidden
	}
	if parsed.RawQuery != "" { // a password may stand there, too
		parsed.RawQuery = "…"
	}
	return parsed.Redacted()
}

func (u URL) GoString() string             { return u.String() }
func (u URL) LogValue() slog.Value         { return slog.StringValue(u.String()) }
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Fault says what is wrong with a URL; empty if nothing is.
func (u URL) Fault() string {
	if path, ok := u.SQLite(); ok {
		switch {
		case path == "":
			return "names no file; use sqlite:PATH"
		case strings.HasPrefix(path, "//"):
			return "has slashes after sqlite:; use sqlite:PATH, such as sqlite:/var/lib/pawl/ledger.db"
		}
		return ""
	}
	if u.Postgres() {
		if _, err := url.Parse(string(u)); err != nil {
			return "cannot be read as a URL; write special characters of the password as %XX" // the cause would quote it
		}
		return ""
	}
	return "is neither sqlite:PATH nor postgres://…"
}
