package sqlite

import (
	"strings"

	"github.com/pawlworks/pawl/ledger"
)

// bounded makes foreign text fit to be stored.
func bounded(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= ledger.MaxReason {
		return s
	}
	return strings.ToValidUTF8(s[:ledger.MaxReason], "") + "…"
}
