package canonical

import (
	"bytes"
	"reflect"
	"unicode/utf8"
)

// hasReplacement reports whether a text may hold a U+FFFD that encoding/json
// wrote in place of something else.
func hasReplacement(text []byte) bool {
	return bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\uFFFD"))
}

// hidesInvalidUTF8 looks for an invalid string anywhere inside v. It is asked
// only about values whose own MarshalJSON wrote U+FFFD: most such methods call
// encoding/json for the fields they hold, which replaces without a word.
func hidesInvalidUTF8(v reflect.Value) bool {
	return invalidInside(v, map[visit]bool{}, 0)
}

func invalidInside(v reflect.Value, seen map[visit]bool, depth int) bool {
	if depth > MaxDepth {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Interface:
		return !v.IsNil() && invalidInside(v.Elem(), seen, depth+1)
	case reflect.Pointer:
		at := visitOf(v)
		if v.IsNil() || seen[at] {
			return false
		}
		seen[at] = true
		return invalidInside(v.Elem(), seen, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if invalidInside(v.Field(i), seen, depth+1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false // bytes are no text
		}
		for i := range v.Len() {
			if invalidInside(v.Index(i), seen, depth+1) {
				return true
			}
		}
	case reflect.Map:
		at := visitOf(v)
		if seen[at] {
			return false
		}
		seen[at] = true
		for it := v.MapRange(); it.Next(); {
			if invalidInside(it.Key(), seen, depth+1) || invalidInside(it.Value(), seen, depth+1) {
				return true
			}
		}
	}
	return false
}
