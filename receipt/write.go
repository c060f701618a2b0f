package receipt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawlworks/pawl/canonical"
)

// member is one member of a canonical object. Issuing is on the path of every
// effect, so documents are put together from canonical parts and written once,
// instead of being brought into canonical form again at every level.
type member struct {
	name  string // ASCII without escapes
	value []byte // canonical
}

// object writes canonical members in canonical order.
func object(members ...member) []byte {
	// Byte order is the order of UTF-16 code units for ASCII names.
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	size := 2
	for _, m := range members {
		size += len(m.name) + len(m.value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, m.name...)
		out = append(out, '"', ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// list writes canonical values as an array.
func list(values ...[]byte) []byte {
	out := []byte{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// quote writes a string that is known to be valid UTF-8.
func quote(s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		out := append(make([]byte, 0, len(s)+2), '"')
		return append(append(out, s...), '"')
	}
	out, err := canonical.Marshal(s)
	if err != nil {
		// Only invalid UTF-8 has no canonical form, and every text is checked
		// before it is written; a reader would see the replacement.
		out, _ = canonical.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

func integer(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func null() []byte { return []byte("null") }
