package canonical

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// field is one member of a struct's JSON form.
type field struct {
	name      string
	tagged    bool
	index     []int
	quoted    bool // tag option "string", on a type it applies to
	omitEmpty bool
	omitZero  bool
}

// of finds the field in v. It is missing when an embedded pointer on the way
// is nil.
func (f *field) of(v reflect.Value) (reflect.Value, bool) {
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

func (f *field) omits(v reflect.Value) bool {
	return f.omitEmpty && isEmpty(v) || f.omitZero && isZero(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Bool, reflect.Interface, reflect.Pointer,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return v.IsZero()
	}
	return false
}

type isZeroer interface{ IsZero() bool }

var isZeroerType = reflect.TypeFor[isZeroer]()

func isZero(v reflect.Value) bool {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Interface && t.Implements(isZeroerType):
		return v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() || v.Interface().(isZeroer).IsZero()
	case t.Kind() == reflect.Pointer && t.Implements(isZeroerType):
		return v.IsNil() || v.Interface().(isZeroer).IsZero()
	case t.Implements(isZeroerType):
		return v.Interface().(isZeroer).IsZero()
	case reflect.PointerTo(t).Implements(isZeroerType):
		if !v.CanAddr() {
			c := reflect.New(t).Elem()
			c.Set(v)
			v = c
		}
		return v.Addr().Interface().(isZeroer).IsZero()
	}
	return v.IsZero()
}

// knownFields remembers fieldsOf by type. It is a memo of a pure function, as
// in encoding/json: its content changes how fast an answer comes, never which.
var knownFields sync.Map // reflect.Type to []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	known, _ := knownFields.LoadOrStore(t, findFields(t))
	return known.([]field)
}

// findFields applies Go's rules for promoted fields as encoding/json changes
// them: of the fields with one name the shallowest wins, among those the only
// tagged one, and if that leaves several, none.
func findFields(t reflect.Type) []field {
	type embedded struct {
		typ   reflect.Type
		index []int
	}
	var fields []field
	next := []embedded{{typ: t}}
	visited := map[reflect.Type]bool{}
	for count := map[reflect.Type]int{}; len(next) > 0; {
		current, times := next, count
		next, count = nil, map[reflect.Type]int{}
		for _, at := range current {
			if visited[at.typ] {
				continue
			}
			visited[at.typ] = true
			for i := range at.typ.NumField() {
				sf := at.typ.Field(i)
				f, inner, ok := readField(sf)
				if !ok {
					continue
				}
				f.index = append(slices.Clone(at.index), i)
				if inner == nil {
					fields = append(fields, f)
					if times[at.typ] > 1 {
						// The type is embedded more than once at this level: its
						// fields hide each other.
						fields = append(fields, f)
					}
					continue
				}
				if count[inner]++; count[inner] == 1 {
					next = append(next, embedded{typ: inner, index: f.index})
				}
			}
		}
	}
	return dominant(fields)
}

// readField reads the tag of a struct field. inner is set for an embedded
// struct whose fields are promoted.
func readField(sf reflect.StructField) (f field, inner reflect.Type, ok bool) {
	base := sf.Type
	if base.Kind() == reflect.Pointer && (sf.Anonymous || base.Name() == "") {
		base = base.Elem()
	}
	if !sf.IsExported() && (!sf.Anonymous || base.Kind() != reflect.Struct) {
		return f, nil, false
	}
	tag := sf.Tag.Get("json")
	if tag == "-" {
		return f, nil, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if !isTagName(name) {
		name = ""
	}
	if name == "" && sf.Anonymous && base.Kind() == reflect.Struct {
		return f, base, true
	}
	f = field{name: cmp.Or(name, sf.Name), tagged: name != ""}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			k := base.Kind()
			f.quoted = reflect.Bool <= k && k <= reflect.Float64 || k == reflect.String
		}
	}
	return f, nil, true
}

func isTagName(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return s != ""
}

func dominant(fields []field) []field {
	slices.SortStableFunc(fields, func(a, b field) int {
		tagged := 0
		if a.tagged != b.tagged {
			tagged = 1
			if a.tagged {
				tagged = -1
			}
		}
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)), tagged)
	})
	var kept []field
	for len(fields) > 0 {
		n := 1
		for n < len(fields) && fields[n].name == fields[0].name {
			n++
		}
		rivals := n > 1 && len(fields[0].index) == len(fields[1].index) && fields[0].tagged == fields[1].tagged
		if !rivals {
			kept = append(kept, fields[0])
		}
		fields = fields[n:]
	}
	return kept
}
