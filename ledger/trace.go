package ledger

import (
	"regexp"
	"strings"
)

// traceForm is version 00 of the W3C trace context: version, trace, span, flags.
var traceForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// validTrace returns a W3C traceparent as it is, and empty for what has another form or names no trace or span: a broken header must
// not stop an effect.
func validTrace(parent string) string {
	parts := traceForm.FindStringSubmatch(parent)
	if parts == nil || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return parent
}

// StoredTrace reads trace_parent as it is stored, where plain SQL may have written anything. Only backends call it.
func StoredTrace(parent *string) string {
	if parent == nil {
		return ""
	}
	return validTrace(*parent)
}
