package canonical

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError says why and where a value has no canonical form.
type SyntaxError struct {
	// Offset counts bytes from the start of the JSON text. It is -1 when the
	// value came as a Go value and not as text.
	Offset int64
	// Path leads to the fault from the root, which is "$": $.to[2]["odd name"].
	// Very long paths are cut in the middle.
	Path string
	// Msg is the fault. It never quotes the value.
	Msg string
}

func (e *SyntaxError) Error() string {
	var b strings.Builder
	b.WriteString("canonical json: ")
	b.WriteString(e.Msg)
	b.WriteString(" at ")
	b.WriteString(e.Path)
	if e.Offset >= 0 {
		b.WriteString(" (byte ")
		b.WriteString(strconv.FormatInt(e.Offset, 10))
		b.WriteByte(')')
	}
	return b.String()
}

const (
	maxPathBytes    = 240 // a path longer than this is cut in the middle: errors go to logs
	maxPathKeyBytes = 64  // longest member name shown in a path
)

// level is one open container on the way to a fault.
type level struct {
	object    bool
	named     bool // the name of the current member is complete
	afterName bool // its colon has been passed: the fault is in the value
	position  int
	// The name's place in the text.
	name, nameEnd int
}

// pathAt returns the path of offset. Everything before offset must have been
// accepted already. Paths are found by reading again and not kept while
// reading, so that they cost nothing where there is no fault.
func pathAt(raw []byte, offset int) string {
	var open []level
	for i := 0; i < offset && i < len(raw); i++ {
		switch c := raw[i]; c {
		case '{', '[':
			open = append(open, level{object: c == '{'})
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			top := &open[len(open)-1]
			top.position++
			top.named, top.afterName = false, false
		case ':':
			open[len(open)-1].afterName = true
		case '"':
			end := skipString(raw, i)
			if end > offset {
				return renderPath(raw, open) // the fault is inside this string
			}
			if len(open) > 0 {
				if top := &open[len(open)-1]; top.object && !top.named {
					top.named, top.name, top.nameEnd = true, i+1, end-1
				}
			}
			i = end - 1
		}
	}
	return renderPath(raw, open)
}

// skipString returns the offset after the string that opens at i, or one beyond
// len(raw) when it has no end.
func skipString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw) + 1
}

func renderPath(raw []byte, open []level) string {
	path := []byte{'$'}
	for _, l := range open {
		switch {
		case !l.object:
			path = append(path, '[')
			path = strconv.AppendInt(path, int64(l.position), 10)
			path = append(path, ']')
		case l.afterName:
			path = appendPathName(path, raw[l.name:l.nameEnd])
		}
	}
	if len(path) <= maxPathBytes {
		return string(path)
	}
	half := maxPathBytes / 2
	return strings.ToValidUTF8(string(path[:half])+" … "+string(path[len(path)-half:]), "")
}

// appendPathName adds a member name that is still in its JSON spelling.
func appendPathName(path, name []byte) []byte {
	plain := len(name) > 0 && len(name) <= maxPathKeyBytes
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			plain = false
			break
		}
	}
	if plain {
		return append(append(path, '.'), name...)
	}
	cut := ""
	if len(name) > maxPathKeyBytes {
		name, cut = name[:maxPathKeyBytes], "…"
		for len(name) > 0 && !utf8.Valid(name) {
			name = name[:len(name)-1]
		}
	}
	path = append(append(path, '[', '"'), name...)
	path = append(path, cut...)
	return append(path, '"', ']')
}
