package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/core/channel"
)

const (
	// MaxEvidence bounds the stored detail of evidence, in bytes. An outside system that says more is cut, with digest and
	// size of the whole kept.
	MaxEvidence = 64 << 10
	// MaxEvidenceID bounds the id of an effect on the outside system, in bytes.
	MaxEvidenceID = 1024
	// MaxReason bounds stored reasons and errors, in bytes.
	MaxReason = 2048
	// maxEvidenceDepth bounds nesting below what any JSON reader on the way refuses.
	maxEvidenceDepth = 256
)

// storedEvidence is the form of external_ref and late_ref.
type storedEvidence struct {
	ID     string          `json:"id,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"`
	// Raw holds, in base64, a detail that cannot be stored as JSON, cut at MaxEvidence, beside the reason.
	Raw    string `json:"raw,omitempty"`
	Reason string `json:"reason,omitempty"`
	Size   int    `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	RawID  string `json:"raw_id,omitempty"` // base64 of an id that is not printable text
}

// EncodeEvidence makes the JSON that is stored, whatever the outside system said: it never fails. A detail that is not
// JSON which every part of the system can hold as it is (no NUL, no lone surrogate, no number that a double rounds, no name twice, at most
// MaxEvidence) is kept as base64 beside the reason.
func EncodeEvidence(e channel.Evidence) json.RawMessage {
	var s storedEvidence
	if id, ok := plainID(e.ID); ok {
		s.ID = id
	} else {
		s.RawID = base64.StdEncoding.EncodeToString([]byte(cut(e.ID, MaxEvidenceID)))
		s.Reason = "the id is not plain text; "
	}
	if len(e.Detail) > 0 {
		form, reason := plainDetail(e.Detail)
		if reason == "" {
			s.Detail = form
		} else {
			sum := sha256.Sum256(e.Detail)
			s.Raw = base64.StdEncoding.EncodeToString(e.Detail[:min(len(e.Detail), MaxEvidence)])
			s.Reason += reason
			s.Size = len(e.Detail)
			s.SHA256 = hex.EncodeToString(sum[:])
		}
	}
	s.Reason = strings.TrimSuffix(s.Reason, "; ")
	raw, err := canonical.Marshal(s)
	if err != nil { // cannot happen: every member was checked above
		return json.RawMessage(`{"reason":"evidence could not be encoded"}`)
	}
	return raw
}

// EvidenceID returns the id in stored evidence; empty if there is none.
func EvidenceID(stored json.RawMessage) string {
	var s storedEvidence
	if json.Unmarshal(stored, &s) != nil {
		return ""
	}
	return s.ID
}

// DecodeEvidence returns stored evidence in the form in which an adapter gave it, as far as it was kept.
func DecodeEvidence(stored json.RawMessage) channel.Evidence {
	var s storedEvidence
	if len(stored) == 0 || json.Unmarshal(stored, &s) != nil {
		return channel.Evidence{}
	}
	e := channel.Evidence{ID: s.ID, Detail: s.Detail}
	if s.Raw != "" {
		if raw, err := base64.StdEncoding.DecodeString(s.Raw); err == nil {
			e.Detail = raw
		}
	}
	if s.RawID != "" {
		if raw, err := base64.StdEncoding.DecodeString(s.RawID); err == nil {
			e.ID = string(raw)
		}
	}
	return e
}

func plainID(id string) (string, bool) {
	if len(id) > MaxEvidenceID || !utf8.ValidString(id) {
		return "", false
	}
	for _, r := range id {
		if r < 0x20 || r == 0x7f {
			return "", false
		}
	}
	return id, true
}

// plainDetail returns the canonical form, or why there is none.
func plainDetail(raw []byte) (json.RawMessage, string) {
	if len(raw) > MaxEvidence {
		return nil, "larger than the limit; cut"
	}
	form, err := canonical.Transform(raw)
	if err != nil {
		return nil, "not JSON: " + bounded(strings.ToValidUTF8(err.Error(), "?"))
	}
	// The canonical form rounds long numbers and keeps one of two equal names: what it would change stays as it is.
	if _, err := canonical.SumExact(raw); err != nil {
		return nil, "would be changed: " + bounded(err.Error())
	}
	// The canonical form writes NUL and lone surrogates as escapes; the databases' JSON types refuse both.
	if bytes.Contains(form, []byte(`\u0000`)) {
		return nil, "holds a NUL"
	}
	if hasSurrogateEscape(form) {
		return nil, "holds a lone surrogate"
	}
	if depth(form) > maxEvidenceDepth {
		return nil, "nested too deeply"
	}
	return form, ""
}

// hasSurrogateEscape looks for \ud8xx–\udfxx outside an escaped backslash. The canonical form escapes no surrogate that is part of a pair.
func hasSurrogateEscape(form []byte) bool {
	for i := 0; i+3 < len(form); i++ {
		if form[i] != '\\' {
			continue
		}
		if form[i+1] == 'u' && form[i+2] == 'd' && form[i+3] >= '8' {
			return true
		}
		i++ // skip what is escaped
	}
	return false
}

// depth is how deep JSON nests, or more where strings hold brackets: a false alarm only costs readability.
func depth(form []byte) int {
	d, deepest := 0, 0
	for _, b := range form {
		switch b {
		case '{', '[':
			d++
			deepest = max(deepest, d)
		case '}', ']':
			d--
		}
	}
	return deepest
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// bounded makes text that every part of the system can hold.
func bounded(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r == 0 {
			return -1
		}
		return r
	}, s)
	if len(s) <= MaxReason {
		return s
	}
	return strings.ToValidUTF8(s[:MaxReason], "") + "…"
}
