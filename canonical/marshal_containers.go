package canonical

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
)

func (e *encoder) enter(brace byte) error {
	if e.open == MaxDepth {
		return e.fail(tooDeep)
	}
	e.open++
	e.buf = append(e.buf, brace)
	return nil
}

func (e *encoder) leave(brace byte) {
	e.open--
	e.buf = append(e.buf, brace)
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
	if err := e.enter('['); err != nil {
		return err
	}
	for i := range v.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(v.Index(i), depth, false); err != nil {
			return err
		}
	}
	e.leave(']')
	return nil
}

func (e *encoder) structure(v reflect.Value, depth int) error {
	if err := e.enter('{'); err != nil {
		return err
	}
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
	e.leave('}')
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
	if err := e.enter('{'); err != nil {
		return err
	}
	var written map[string]bool // only where two keys can have one text
	if named {
		written = make(map[string]bool, v.Len())
	}
	first := true
	for it := v.MapRange(); it.Next(); {
		if it.Value().Kind() == reflect.Pointer && it.Value().IsNil() {
			continue
		}
		name, err := e.keyName(it.Key(), named)
		if err != nil {
			return err
		}
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		if named {
			if written[name] { // which one would win is up to the map's random order
				return e.fail("two keys of a map have the same text")
			}
			written[name] = true
		}
		if err := e.text(name); err != nil {
			return err
		}
		e.buf = append(e.buf, ':')
		if err := e.value(it.Value(), depth, false); err != nil {
			return err
		}
	}
	e.leave('}')
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
