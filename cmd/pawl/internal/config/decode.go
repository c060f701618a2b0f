package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decoder fills a [Config] from the merged values and collects every fault.
type decoder struct {
	places places
	faults []Fault
}

// fault notes what is wrong with a key, once: what follows from a fault says nothing new.
func (d *decoder) fault(path []string, format string, args ...any) {
	key := strings.Join(path, ".")
	if slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Key == key }) {
		return
	}
	d.faults = append(d.faults, Fault{Place: d.places.of(path), Key: key, Problem: fmt.Sprintf(format, args...)})
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	adapterType  = reflect.TypeFor[Adapter]()
)

// decode stores value in target, whose type says what is allowed there.
func (d *decoder) decode(path []string, value any, target reflect.Value) {
	if value == nil { // a key without a value
		return
	}
	if name, isText := value.(string); isText && target.Type() == adapterType {
		target.Set(reflect.ValueOf(Adapter{Name: name}))
		return
	}
	switch target.Type() {
	case durationType:
		d.duration(path, value, target)
		return
	case secretType:
		d.free(path, value, target)
		return
	}
	switch target.Kind() {
	case reflect.Struct:
		d.record(path, value, target)
	case reflect.Map:
		d.named(path, value, target)
	case reflect.Slice:
		d.list(path, value, target)
	default:
		d.scalar(path, value, target)
	}
}

// fields returns the keys of a struct type in order, and the index of each.
func fields(t reflect.Type) (keys []string, at map[string]int) {
	at = map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			keys = append(keys, key)
			at[key] = i
		}
	}
	return keys, at
}

func (d *decoder) record(path []string, value any, target reflect.Value) {
	members, ok := value.(map[string]any)
	if !ok {
		d.fault(path, "must be a mapping, is %s", kindOf(value))
		return
	}
	known, at := fields(target.Type())
	for key, member := range members {
		child := append(path[:len(path):len(path)], key)
		i, ok := at[key]
		if !ok {
			d.fault(child, "unknown key; %s", Suggest(key, known))
			continue
		}
		d.decode(child, member, target.Field(i))
	}
}

func (d *decoder) named(path []string, value any, target reflect.Value) {
	members, ok := value.(map[string]any)
	if !ok {
		d.fault(path, "must be a mapping of names, is %s", kindOf(value))
		return
	}
	target.Set(reflect.MakeMap(target.Type()))
	for name, member := range members {
		element := reflect.New(target.Type().Elem()).Elem()
		d.decode(append(path[:len(path):len(path)], name), member, element)
		target.SetMapIndex(reflect.ValueOf(name), element)
	}
}

func (d *decoder) list(path []string, value any, target reflect.Value) {
	items, ok := value.([]any)
	if !ok {
		d.fault(path, "must be a list, is %s", kindOf(value))
		return
	}
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			d.fault(path, "item %d must be text, is %s; put it in quotes", i+1, kindOf(item))
			continue
		}
		target.Set(reflect.Append(target, reflect.ValueOf(text)))
	}
}

func (d *decoder) duration(path []string, value any, target reflect.Value) {
	text, ok := value.(string)
	if !ok {
		d.fault(path, "must be a duration with a unit, such as 30s or 2m, is %s", kindOf(value))
		return
	}
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		d.fault(path, "is no duration; use a number with a unit, such as 30s or 2m")
	case v <= 0:
		d.fault(path, "must be more than 0, is %s; leave it out for the default", text)
	default:
		target.SetInt(int64(v))
	}
}

// free keeps a value as JSON, for an adapter to read.
func (d *decoder) free(path []string, value any, target reflect.Value) {
	if _, ok := value.(map[string]any); !ok {
		d.fault(path, "must be a mapping, is %s", kindOf(value))
		return
	}
	raw, err := json.Marshal(value)
	if err != nil { // the cause may quote the value
		d.fault(path, "holds a value that has no JSON form (such as .nan); remove it")
		return
	}
	target.SetBytes(raw)
}

func (d *decoder) scalar(path []string, value any, target reflect.Value) {
	switch target.Kind() {
	case reflect.String:
		if text, ok := value.(string); ok {
			target.SetString(text)
			return
		}
		d.fault(path, "must be text, is %s; put it in quotes", kindOf(value))
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			target.SetBool(b)
			return
		}
		d.fault(path, "must be true or false, is %s", kindOf(value))
	case reflect.Float64:
		switch n := value.(type) {
		case float64:
			target.SetFloat(n)
		case int:
			target.SetFloat(float64(n))
		default:
			d.fault(path, "must be a number, is %s", kindOf(value))
		}
	case reflect.Int:
		n, ok := value.(int)
		switch {
		case !ok:
			d.fault(path, "must be a whole number, is %s", kindOf(value))
		case n < 0:
			d.fault(path, "must not be negative, is %d", n)
		default:
			target.SetInt(int64(n))
		}
	}
}

// kindOf names a value's kind and never the value, which may be a secret in the wrong place.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int, int64, uint64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("a %T", value)
}
