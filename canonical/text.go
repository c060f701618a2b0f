package canonical

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// str accepts the string that opens at i and returns the offset after it and
// whether it has escapes.
func (x *index) str(i int) (end int, escaped bool, err error) {
	raw := x.raw
	i++
	for {
		i = skipPlain(raw, i)
		if i >= len(raw) {
			return i, escaped, x.failAt(i, "the end of a string")
		}
		switch c := raw[i]; {
		case c == '"':
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			if i+1 >= len(raw) {
				return i, escaped, x.failAt(len(raw), "an escape")
			}
			switch raw[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if _, ok := hex4(raw, i+2); !ok {
					return i, escaped, x.fail(i, "expected four hexadecimal digits after \\u")
				}
				i += 6
			default:
				return i, escaped, x.fail(i, "unknown escape")
			}
		case c < ' ':
			return i, escaped, x.fail(i, "unescaped control character in a string")
		default:
			r, size := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && size <= 1 {
				return i, escaped, x.fail(i, "invalid UTF-8")
			}
			i += size
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain returns the offset of the first byte from i on that is not ASCII
// or means something in a string. It reads eight bytes at a time: strings are
// most of most payloads.
func skipPlain(raw []byte, i int) int {
	for i+8 <= len(raw) {
		w := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// A byte sets its high bit here when it is zero after the xor, below
		// 0x20, or above 0x7f. Borrows can only set a bit too many.
		if ((quote-ones)|(slash-ones)|(w-ones*' ')|w)&highs != 0 {
			break
		}
		i += 8
	}
	for i < len(raw) {
		if c := raw[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		i++
	}
	return i
}

// hex4 reads four hexadecimal digits at i.
func hex4(raw []byte, i int) (uint16, bool) {
	if i+4 > len(raw) {
		return 0, false
	}
	var u uint16
	for _, c := range raw[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | uint16(c)
	}
	return u, true
}

// compareUTF16 orders two valid UTF-8 texts by their UTF-16 code units. That
// is the order of their bytes but for one thing: characters above U+FFFF are
// surrogates in UTF-16, which come before U+E000 to U+FFFF.
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return len(a) - len(b)
	}
	ca, cb := int(a[i]), int(b[i])
	// Only a first byte can be 0xEE or more; if the bytes before are equal,
	// both are first bytes or neither is.
	if ca >= 0xEE && cb >= 0xEE && (ca >= 0xF0) != (cb >= 0xF0) {
		return cb - ca
	}
	return ca - cb
}

// compareEscaped is compareUTF16 for accepted string bodies with escapes.
func compareEscaped(a, b []byte) int {
	ua, ub := units{raw: a}, units{raw: b}
	for {
		ca, cb := ua.next(), ub.next()
		if ca != cb || ca < 0 {
			return ca - cb
		}
	}
}

// units reads an accepted string body as UTF-16 code units.
type units struct {
	raw []byte
	i   int
	low int // second half of a pair that is still to be given
}

// next returns the next unit, or -1 at the end.
func (u *units) next() int {
	if u.low != 0 {
		low := u.low
		u.low = 0
		return low
	}
	if u.i >= len(u.raw) {
		return -1
	}
	c := u.raw[u.i]
	switch {
	case c == '\\':
		unit, size := unescape(u.raw, u.i)
		u.i += size
		return int(unit)
	case c < utf8.RuneSelf:
		u.i++
		return int(c)
	}
	r, size := utf8.DecodeRune(u.raw[u.i:])
	u.i += size
	if r < 0x10000 {
		return int(r)
	}
	high, low := utf16.EncodeRune(r)
	u.low = int(low)
	return int(high)
}

// unescape reads the accepted escape at i and returns its code unit and how
// many bytes it takes.
func unescape(raw []byte, i int) (unit uint16, size int) {
	switch c := raw[i+1]; c {
	case 'u':
		unit, _ = hex4(raw, i+2)
		return unit, 6
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	default:
		return uint16(c), 2
	}
}
