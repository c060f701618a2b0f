package canonical

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// leaves are the types random structs are made of. Pointers are absent: there
// the two encoders differ on purpose.
var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[any](),
	reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Duration](), reflect.TypeFor[byText](), reflect.TypeFor[byPointer](),
}

func drawType(t *rapid.T, depth int) reflect.Type {
	n := rapid.IntRange(0, 9).Draw(t, "shape")
	switch {
	case depth == 0 || n < 5:
		return rapid.SampledFrom(leaves).Draw(t, "leaf")
	case n == 5:
		return reflect.SliceOf(drawType(t, depth-1))
	case n == 6:
		return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "length"), drawType(t, depth-1))
	case n == 7:
		key := rapid.SampledFrom([]reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int32](), reflect.TypeFor[uint8](), reflect.TypeFor[byText]()}).Draw(t, "key")
		return reflect.MapOf(key, drawType(t, depth-1))
	}
	var fields []reflect.StructField
	for i := range rapid.IntRange(0, 5).Draw(t, "fields") {
		name := rapid.SampledFrom([]string{"", "a", "b", "é", "x y", "$", "-", "a\\u0000", "<"}).Draw(t, "name")
		options := rapid.SampledFrom([]string{"", ",omitempty", ",omitzero", ",string", ",omitempty,string", ",omitzero,omitempty"}).Draw(t, "options")
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: drawType(t, depth-1), Tag: reflect.StructTag(`json:"` + name + options + `"`),
		})
	}
	return reflect.StructOf(fields)
}

func drawInto(t *rapid.T, v reflect.Value) {
	if rapid.IntRange(0, 5).Draw(t, "zero") == 0 {
		if v.Type() == rawMessageType && !v.IsNil() {
			v.SetZero()
		}
		return
	}
	switch v.Type() {
	case rawMessageType:
		v.SetBytes([]byte(rapid.SampledFrom([]string{`{"b":1.0,"a":[]}`, `"\ufffd\ud800"`, "null", " 1e2 "}).Draw(t, "raw")))
		return
	case reflect.TypeFor[byText]():
		v.Set(reflect.ValueOf(byText{rapid.String().Draw(t, "text")}))
		return
	case reflect.TypeFor[byPointer]():
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int8, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Filter(func(f float32) bool { return !math.IsInf(float64(f), 0) }).Draw(t, "float32")))
	case reflect.Float64:
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = rapid.Float64Range(-1e9, 1e9).Draw(t, "float")
		}
		v.SetFloat(f)
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Interface:
		elem := reflect.New(drawType(t, 1)).Elem()
		drawInto(t, elem)
		v.Set(elem)
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			drawInto(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 4).Draw(t, "size") {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			drawInto(t, key)
			drawInto(t, elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			drawInto(t, v.Field(i))
		}
	}
}

func TestMarshalOfRandomTypesIsTransformOfEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := reflect.New(drawType(t, 3))
		drawInto(t, v.Elem())
		value := v.Elem().Interface()
		if rapid.Bool().Draw(t, "addressable") {
			value = v.Interface()
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatalf("encoding/json refuses %T: %v", value, err)
		}
		want, err := Transform(text)
		if err != nil {
			t.Fatalf("Transform(%s): %v", text, err)
		}
		got, err := Marshal(value)
		if err != nil || string(got) != string(want) {
			t.Fatalf("Marshal of %T\n got %s, %v\nwant %s", value, got, err, want)
		}
	})
}

func TestMarshalRefusesExactlyInvalidUTF8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "valid") {
			s = rapid.String().Draw(t, "string")
		}
		_, err := Marshal(map[string]any{"k": []string{s}})
		if valid := string([]rune(s)) == s; valid != (err == nil) {
			t.Fatalf("Marshal of %q: %v", s, err)
		}
	})
}
