package canonical

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

func (e *encoder) scalar(v reflect.Value, quoted bool) error {
	start := len(e.buf)
	if quoted && v.Kind() != reflect.String {
		e.buf = append(e.buf, '"')
	}
	switch v.Kind() {
	case reflect.Bool:
		e.buf = strconv.AppendBool(e.buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = strconv.AppendInt(e.buf, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.buf = strconv.AppendUint(e.buf, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			e.buf = e.buf[:start]
			return e.fail("NaN and infinities have no JSON form")
		}
		e.buf = appendFloatBits(e.buf, f, v.Type().Bits()) // a float32 by the digits a float32 needs
	case reflect.String:
		return e.stringKind(v, quoted)
	default:
		e.buf = e.buf[:start]
		return e.fail(fmt.Sprintf("a Go %s has no JSON form", v.Type()))
	}
	if quoted {
		e.buf = append(e.buf, '"')
	}
	return nil
}

func (e *encoder) stringKind(v reflect.Value, quoted bool) error {
	s := v.String()
	if v.Type() == numberType {
		if s == "" {
			s = "0" // as encoding/json does
		}
		if s[0] != '-' && (s[0] < '0' || s[0] > '9') {
			return e.fail("json.Number does not hold a number")
		}
		if end, ok := scanNumber([]byte(s), 0); !ok || end != len(s) {
			return e.fail("json.Number does not hold a number")
		}
		if quoted {
			s = `"` + s + `"`
		}
		e.buf = append(e.buf, s...)
		return nil
	}
	if !quoted || !utf8.ValidString(s) {
		return e.text(s)
	}
	inner, err := json.Marshal(s) // its own spelling: it is content here, escapes of < > & and all
	if err != nil {
		return err
	}
	return e.text(string(inner))
}

// text writes a Go string.
func (e *encoder) text(s string) error {
	if !utf8.ValidString(s) {
		return e.fail(fmt.Sprintf("invalid UTF-8 in a string (byte %d of it)", invalidAt(s)))
	}
	e.buf = appendJSONString(e.buf, s)
	return nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size <= 1 {
				return i
			}
		}
	}
	return len(s)
}

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[from:i]...)
			dst = appendUnit(dst, uint16(c))
			from = i + 1
		}
	}
	return append(append(dst, s[from:]...), '"')
}
