package receipt

import (
	"strconv"
	"strings"
)

// shape is what canonical JSON hides about the text it was made from.
type shape struct {
	members   int  // object members, duplicates counted
	depth     int  // deepest nesting
	inexact   bool // some number is not the decimal value of its double
	surrogate bool // a surrogate escape in lower case: in canonical text, a lone one
}

// inspect walks syntactically valid JSON once.
func inspect(text []byte) shape {
	var s shape
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i = s.skipString(text, i)
		case c == '{' || c == '[':
			depth++
			s.depth = max(s.depth, depth)
		case c == '}' || c == ']':
			depth--
		case c == ':':
			s.members++
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			if !exactDouble(string(text[i:end])) {
				s.inexact = true
			}
			i = end - 1
		}
	}
	return s
}

// skipString returns the index of the closing quote of the string at i.
func (s *shape) skipString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if i+1 < len(text) && text[i] == 'u' && text[i+1] == 'd' {
			s.surrogate = true
		}
	}
	return i
}

// exactDouble reports whether the shortest decimal of the nearest double has
// the same value as the token, so that nothing is lost on the way through it.
func exactDouble(token string) bool {
	f, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return false
	}
	digits, exponent, ok := decimal(token)
	if !ok {
		return false
	}
	kept, keptExponent, ok := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return ok && digits == kept && exponent == keptExponent
}

// decimal splits a JSON number into its signed significant digits and the power
// of ten they are multiplied by. All zeros are one value.
func decimal(token string) (digits string, exponent int, ok bool) {
	mantissa := token
	if at := strings.IndexAny(token, "eE"); at >= 0 {
		n, err := strconv.Atoi(token[at+1:])
		if err != nil {
			return "", 0, false
		}
		mantissa, exponent = token[:at], n
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	all := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(all, "0")
	if digits == "" {
		return "", 0, true
	}
	exponent += len(all) - len(digits)
	if negative {
		digits = "-" + digits
	}
	return digits, exponent, true
}
