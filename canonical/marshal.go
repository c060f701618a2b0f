package canonical

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Marshal returns the canonical form of a Go value. The value is read by the
// rules of encoding/json (struct tags, embedding, omitempty, omitzero,
// json.Marshaler, encoding.TextMarshaler, json.RawMessage, json.Number, []byte
// as base64) with these differences:
//
//   - a member of a struct or map that is a nil pointer is left out, tagged or
//     not; nil in an interface or in an array is null
//   - a string that is not valid UTF-8 is refused; encoding/json replaces it
//   - two keys of one map that have the same text are refused
//
// Functions, channels and complex numbers are refused, and so is a value that
// contains itself. What a MarshalJSON method returns must be one JSON value
// and is taken as it is: the first rule above does not reach inside it.
//
// Refusals are a [*SyntaxError] with Offset -1; an error of the value's own
// MarshalJSON or MarshalText method is wrapped.
func Marshal(v any) ([]byte, error) {
	text, err := encode(v)
	if err != nil {
		return nil, err
	}
	form, err := Transform(text)
	if err != nil {
		return nil, fromValue(err)
	}
	return form, nil
}

// fromValue takes the offset out of an error about a text the caller never saw.
func fromValue(err error) error {
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return &SyntaxError{Offset: -1, Path: syntax.Path, Msg: syntax.Msg}
	}
	return err
}

// encode writes v as JSON text that is not yet canonical.
func encode(v any) ([]byte, error) {
	var e encoder
	if err := e.value(reflect.ValueOf(v), 0, false); err != nil {
		return nil, err
	}
	return e.buf, nil
}

// encoder walks one Go value. encoding/json itself cannot be used below: once
// it has written U+FFFD nobody can tell what was there.
type encoder struct {
	buf []byte
}

// maxWalk bounds the containers, pointers and interfaces around a value. A
// value that contains itself ends here or at [MaxDepth].
const maxWalk = 4 * MaxDepth

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	numberType        = reflect.TypeFor[json.Number]()
	rawMessageType    = reflect.TypeFor[json.RawMessage]()
)

func (e *encoder) fail(msg string) error {
	return &SyntaxError{Offset: -1, Path: pathAt(e.buf, len(e.buf)), Msg: msg}
}

// value writes v. quoted is the tag option "string" of the field v is in.
func (e *encoder) value(v reflect.Value, depth int, quoted bool) error {
	if !v.IsValid() {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if depth > maxWalk {
		return e.fail("nested too deep, or the value contains itself")
	}
	if done, err := e.method(v); done {
		return err
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			e.buf = append(e.buf, "null"...)
			return nil
		}
		return e.value(v.Elem(), depth+1, quoted)
	case reflect.Struct:
		return e.structure(v, depth+1)
	case reflect.Map:
		return e.mapping(v, depth+1)
	case reflect.Slice:
		return e.slice(v, depth+1)
	case reflect.Array:
		return e.list(v, depth+1)
	default:
		return e.scalar(v, quoted)
	}
}

// method writes v by its own MarshalJSON or MarshalText, if it has one that
// encoding/json would call.
func (e *encoder) method(v reflect.Value) (done bool, err error) {
	t := v.Type()
	if t.PkgPath() == "" && t.Name() != "" {
		return false, nil // predeclared types have no methods
	}
	for _, want := range []reflect.Type{marshalerType, textMarshalerType} {
		if t.Kind() != reflect.Pointer && v.CanAddr() && reflect.PointerTo(t).Implements(want) {
			return true, e.call(v.Addr(), want)
		}
		if t.Implements(want) {
			return true, e.call(v, want)
		}
	}
	return false, nil
}

func (e *encoder) call(v reflect.Value, want reflect.Type) error {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if want == textMarshalerType {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return fmt.Errorf("canonical json: MarshalText of %s at %s: %w", v.Type(), pathAt(e.buf, len(e.buf)), err)
		}
		return e.text(string(text))
	}
	text, err := v.Interface().(json.Marshaler).MarshalJSON()
	if err != nil {
		return fmt.Errorf("canonical json: MarshalJSON of %s at %s: %w", v.Type(), pathAt(e.buf, len(e.buf)), err)
	}
	// One whole value, or it could close our braces and add members of its own.
	if err := (&index{raw: text}).build(); err != nil {
		var inner *SyntaxError
		if errors.As(err, &inner) {
			return e.fail(fmt.Sprintf("MarshalJSON of %s: %s (byte %d of its text)", v.Type(), inner.Msg, inner.Offset))
		}
		return err
	}
	if v.Type() != rawMessageType && hasReplacement(text) && hidesInvalidUTF8(v) {
		return e.fail(fmt.Sprintf("invalid UTF-8 in a string inside %s, which its MarshalJSON replaces", v.Type()))
	}
	e.buf = append(e.buf, text...)
	return nil
}

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
	if !quoted {
		return e.text(s)
	}
	if !utf8.ValidString(s) {
		return e.text(s)
	}
	return e.text(string(appendJSONString(nil, s)))
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

func (e *encoder) slice(v reflect.Value, depth int) error {
	if v.IsNil() {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if elem := v.Type().Elem(); elem.Kind() == reflect.Uint8 {
		p := reflect.PointerTo(elem)
		if !p.Implements(marshalerType) && !p.Implements(textMarshalerType) {
			e.buf = append(e.buf, '"')
			e.buf = base64.StdEncoding.AppendEncode(e.buf, v.Bytes())
			e.buf = append(e.buf, '"')
			return nil
		}
	}
	return e.list(v, depth)
}

func (e *encoder) list(v reflect.Value, depth int) error {
	e.buf = append(e.buf, '[')
	for i := range v.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(v.Index(i), depth, false); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) structure(v reflect.Value, depth int) error {
	e.buf = append(e.buf, '{')
	first := true
	for _, f := range fieldsOf(v.Type()) {
		fv, ok := f.of(v)
		if !ok || fv.Kind() == reflect.Pointer && fv.IsNil() || f.omits(fv) {
			continue
		}
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		e.buf = append(appendJSONString(e.buf, f.name), ':')
		if err := e.value(fv, depth, f.quoted); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) mapping(v reflect.Value, depth int) error {
	key := v.Type().Key()
	named := key.Kind() != reflect.String && key.Implements(textMarshalerType)
	if !named && !isKeyKind(key.Kind()) {
		return e.fail(fmt.Sprintf("a Go map with keys of type %s has no JSON form", key))
	}
	if v.IsNil() {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	e.buf = append(e.buf, '{')
	var names []string
	first := true
	for it := v.MapRange(); it.Next(); {
		if it.Value().Kind() == reflect.Pointer && it.Value().IsNil() {
			continue
		}
		name, err := e.keyName(it.Key(), named)
		if err != nil {
			return err
		}
		if named {
			names = append(names, name)
		}
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		if err := e.text(name); err != nil {
			return err
		}
		e.buf = append(e.buf, ':')
		if err := e.value(it.Value(), depth, false); err != nil {
			return err
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < len(names) {
		// Which one would win is up to the map's random order.
		return e.fail("two keys of a map have the same text")
	}
	e.buf = append(e.buf, '}')
	return nil
}

func isKeyKind(k reflect.Kind) bool {
	return k == reflect.String || reflect.Int <= k && k <= reflect.Uintptr
}

func (e *encoder) keyName(k reflect.Value, named bool) (string, error) {
	switch {
	case named:
		if k.Kind() == reflect.Pointer && k.IsNil() {
			return "", nil // as encoding/json does
		}
		text, err := k.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return "", fmt.Errorf("canonical json: MarshalText of a key of type %s at %s: %w", k.Type(), pathAt(e.buf, len(e.buf)), err)
		}
		return string(text), nil
	case k.Kind() == reflect.String:
		return k.String(), nil
	case k.CanInt():
		return strconv.FormatInt(k.Int(), 10), nil
	default:
		return strconv.FormatUint(k.Uint(), 10), nil
	}
}
