package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is a key whose value differs between two configurations. A channel that only one of them has is one change, with its path.
type Change struct {
	Path []string // such as channels, mail/shop, flag
}

// Key is the path as it is printed.
func (c Change) Key() string { return strings.Join(c.Path, ".") }

// Channel returns the channel that the key belongs to and the key within it, which is empty if the whole channel came or went.
func (c Change) Channel() (name, key string, ok bool) {
	if len(c.Path) < 2 || c.Path[0] != "channels" {
		return "", "", false
	}
	return c.Path[1], strings.Join(c.Path[2:], "."), true
}

// Diff lists the keys that differ, in order. It says which, never the values: they may be secrets.
func Diff(a, b Config) []Change {
	var all []Change
	differ(nil, reflect.ValueOf(a), reflect.ValueOf(b), &all)
	return all
}

func differ(path []string, a, b reflect.Value, all *[]Change) {
	child := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch a.Kind() {
	case reflect.Struct:
		keys, at := fields(a.Type())
		for _, key := range keys {
			differ(child(key), a.Field(at[key]), b.Field(at[key]), all)
		}
	case reflect.Map:
		names := map[string]bool{}
		for _, m := range []reflect.Value{a, b} {
			for _, name := range m.MapKeys() {
				names[name.String()] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			in, also := a.MapIndex(reflect.ValueOf(name)), b.MapIndex(reflect.ValueOf(name))
			if in.IsValid() && also.IsValid() {
				differ(child(name), in, also, all)
				continue
			}
			*all = append(*all, Change{child(name)})
		}
	default:
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			*all = append(*all, Change{path})
		}
	}
}
