package postgres

import (
	"strings"

	"github.com/pawlworks/pawl/ledger"
)

// bounded makes foreign text fit to be stored: the database refuses a NUL and what is not UTF-8, and with it the whole transaction.
func bounded(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= ledger.MaxReason {
		return s
	}
	return strings.ToValidUTF8(s[:ledger.MaxReason], "") + "…"
}
