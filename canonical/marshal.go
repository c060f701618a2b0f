package canonical

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	buf  []byte
	open int            // arrays and objects around the current value
	seen map[visit]bool // references around the current value, below trustedDepth
}

// trustedDepth is how far into a value nobody looks whether it contains itself.
// Looking costs a map entry for each reference; not looking lets a ring be
// written this many steps.
const trustedDepth = 64

// visit is a reference that is being written. A slice is another one when it
// has another length.
type visit struct {
	at     any
	length int
	typ    reflect.Type
}

func visitOf(v reflect.Value) visit {
	at := visit{at: v.UnsafePointer(), typ: v.Type()}
	if v.Kind() == reflect.Slice {
		at.length = v.Len()
	}
	return at
}

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
	if done, err := e.method(v); done {
		return err
	}
	if depth > trustedDepth && isReference(v) {
		at := visitOf(v)
		if e.seen[at] {
			return e.fail("the value contains itself")
		}
		if e.seen == nil {
			e.seen = map[visit]bool{}
		}
		e.seen[at] = true
		defer delete(e.seen, at)
	}
	return e.kind(v, depth, quoted)
}

func isReference(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return !v.IsNil()
	}
	return false
}

// kind writes v by its kind.
func (e *encoder) kind(v reflect.Value, depth int, quoted bool) error {
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
