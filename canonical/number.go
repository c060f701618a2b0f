package canonical

import (
	"bytes"
	"math"
	"strconv"
)

// scanNumber accepts the number that starts at i and returns the offset after
// it, or the offset of the byte that should have been a digit.
func scanNumber(raw []byte, i int) (end int, ok bool) {
	if raw[i] == '-' {
		i++
	}
	switch {
	case i < len(raw) && raw[i] == '0':
		i++ // nothing may follow a leading zero; the caller sees what does
	default:
		if i, ok = digits(raw, i); !ok {
			return i, false
		}
	}
	if i < len(raw) && raw[i] == '.' {
		if i, ok = digits(raw, i+1); !ok {
			return i, false
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		if i, ok = digits(raw, i); !ok {
			return i, false
		}
	}
	return i, true
}

func digits(raw []byte, i int) (int, bool) {
	start := i
	for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' {
		i++
	}
	return i, i > start
}

// exactDigits is how many digits an integer may have and still be a double
// that prints as the same digits.
const exactDigits = 15

// appendNumber writes an accepted number as ECMAScript would. It returns false
// when the number is too large for a double.
func appendNumber(dst, text []byte) ([]byte, bool) {
	if len(text) <= exactDigits && text[0] != '-' && isInteger(text) {
		return append(dst, text...), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(f, 0) {
		return dst, false
	}
	return appendFloat(dst, f), true
}

func isInteger(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// appendFloat is ECMAScript's Number::toString for finite numbers: the fewest
// digits that read back as the same double, in positional notation from 1e-6
// up to 1e21.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // also for -0
	}
	return appendFloatBits(dst, f, 64)
}

func appendFloatBits(dst []byte, f float64, bits int) []byte {
	low, high := 1e-6, 1e21
	if bits == 32 {
		low, high = float64(float32(low)), float64(float32(high))
	}
	if abs := math.Abs(f); abs == 0 || low <= abs && abs < high {
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	// Go writes at least two digits of exponent, ECMAScript as few as needed.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// sameNumber reports whether two accepted numbers have the same value, as
// decimal numbers and not as doubles.
func sameNumber(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	da, ea, na := decimal(a)
	db, eb, nb := decimal(b)
	return bytes.Equal(da, db) && (len(da) == 0 || ea == eb && na == nb)
}

// decimal takes an accepted number apart: its digits without zeros at either
// end, none for zero, and the power of ten of the last of them.
func decimal(text []byte) (digits []byte, exponent int, negative bool) {
	negative = text[0] == '-'
	fraction := false
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9':
			if fraction {
				exponent--
			}
			if c != '0' || len(digits) > 0 {
				digits = append(digits, c)
			}
		case c == '.':
			fraction = true
		case c == 'e' || c == 'E':
			e, err := strconv.Atoi(string(text[i+1:]))
			if err != nil { // so far from 1 that only zero is a double
				e = math.MinInt32
			}
			exponent += e
		}
		if c == 'e' || c == 'E' {
			break
		}
	}
	for n := len(digits); n > 0 && digits[n-1] == '0'; n-- {
		digits = digits[:n-1]
		exponent++
	}
	return digits, exponent, negative
}
