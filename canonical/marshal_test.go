package canonical

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

type inner struct {
	A int    `json:"a"`
	B string `json:"b,omitempty"`
}

type Outer struct {
	inner
	*Promoted
	Name    string `json:"name"`
	Skip    string `json:"-"`
	Dash    string `json:"-,"` //lint:ignore SA5008 the name is a dash
	hidden  string
	Quoted  int64           `json:",string"`
	QuotedS string          `json:"qs,string"`
	QuotedF float32         `json:"qf,string"`
	Zero    time.Time       `json:"zero,omitzero"`
	Empty   []int           `json:"empty,omitempty"`
	Nil     []int           `json:"nil"`
	Bytes   []byte          `json:"bytes"`
	Raw     json.RawMessage `json:"raw"`
	Number  json.Number     `json:"number"`
	Any     any             `json:"any"`
	Map     map[int]inner   `json:"map"`
	Array   [2]byte         `json:"array"`
	When    time.Time       `json:"when"`
	IP      netip.Addr      `json:"ip"`
	Big     *big.Int        `json:"big"`
	F32     float32         `json:"f32"`
}

type Promoted struct {
	A int `json:"a"` // hides nothing: inner.A has the same depth, so both vanish
	P int `json:"p"`
}

type byPointer struct{ n int }

func (b *byPointer) MarshalJSON() ([]byte, error) { return []byte(`{"z":1,"pointer":true}`), nil }

type byText struct{ s string }

func (b byText) MarshalText() ([]byte, error) { return []byte("t:" + b.s), nil }

type sameText int

func (sameText) MarshalText() ([]byte, error) { return []byte("same"), nil }

type textBytes byte

func (b textBytes) MarshalText() ([]byte, error) { return []byte{'0' + byte(b)}, nil }

type broken struct{ text string }

func (b broken) MarshalJSON() ([]byte, error) { return []byte(b.text), nil }

type failing struct{}

var errFailing = errors.New("has its reasons")

func (failing) MarshalJSON() ([]byte, error) { return nil, errFailing }

type replacing struct{ Text string }

func (r replacing) MarshalJSON() ([]byte, error) {
	type plain replacing
	return json.Marshal(plain(r))
}

func TestMarshalIsTransformOfEncodingJSON(t *testing.T) {
	full := Outer{
		inner: inner{A: 1, B: "b"}, Promoted: &Promoted{A: 2, P: 3}, hidden: "h", Name: "<é\u2028&\x01\ufffd>", Skip: "s", Dash: "d", Quoted: 5,
		QuotedS: "q\"\n<é", QuotedF: 1e-6, Bytes: []byte{0, 255, 62}, Raw: json.RawMessage(` {"z":[1.0, "\ud800\ufffd"],"a":1e2} `), Number: "1.50",
		Any: map[string]any{"x": []any{nil, true, uint8(3), "s"}}, Map: map[int]inner{10: {A: 1}, 9: {}}, Array: [2]byte{1, 2},
		When: time.Unix(1700000000, 5).UTC(), IP: netip.MustParseAddr("192.0.2.1"), Big: big.NewInt(1).Lsh(big.NewInt(1), 70), F32: 0.1,
	}
	for _, v := range []any{
		nil, true, 1, math.Copysign(0, -1), 1e21, 1e-7, math.MaxFloat64, float32(0.1), float32(1e21), uint64(math.MaxUint64), int64(math.MinInt64),
		"text", []string(nil), []string{}, map[string]int(nil), map[string]int{}, [3]bool{}, []any{nil, (*int)(nil), []byte(nil)}, []byte("hello"),
		full, &full, []Outer{{Big: big.NewInt(0), Promoted: &Promoted{}}}, map[string]*Outer{"x": {Big: big.NewInt(1)}},
		byPointer{3}, &byPointer{3}, []byPointer{{1}}, map[string]byPointer{"a": {1}}, struct{ B byPointer }{}, &struct{ B byPointer }{},
		byText{"x"}, map[byText]int{{"b"}: 1, {"a"}: 2}, []textBytes{1, 2}, []sameText{1}, map[uint8]string{200: "a", 3: "b"},
		json.RawMessage(nil), json.Number(""), json.Number("-0.50e1"), struct{ N json.Number }{}, replacing{"ok \ufffd"},
		struct {
			P *bool `json:",string"`
			Q *int  `json:",string"`
		}{P: new(bool), Q: new(int)},
		struct {
			Z time.Time  `json:"z,omitzero"`
			Y *time.Time `json:"y,omitzero"`
			S struct{}   `json:"s,omitempty"`
			I any        `json:"i,omitempty"`
		}{},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		want, err := Transform(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("Marshal(%#v)\n got %s, %v\nwant %s", v, got, err, want)
		}
		if d, err := SumValue(v); err != nil || d != SumBytes(want) {
			t.Errorf("SumValue(%#v) is not the digest of Marshal: %v", v, err)
		}
	}
}

func TestMarshalLeavesOutNilPointerMembers(t *testing.T) {
	var nothing *int
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct{ A, B *int }{B: new(int)}, `{"B":0}`},
		{struct{ A *time.Time }{}, `{}`},
		{struct{ A *big.Int }{}, `{}`},
		{map[string]*int{"a": nil, "b": new(int)}, `{"b":0}`},
		{map[string]any{"a": nil, "b": nothing}, `{"a":null,"b":null}`},
		{struct{ A any }{A: nothing}, `{"A":null}`},
		{struct{ A any }{}, `{"A":null}`},
		{struct{ A []int }{}, `{"A":null}`},
		{struct{ A map[string]int }{}, `{"A":null}`},
		{[]*int{nil, new(int)}, `[null,0]`},
		{[1]*int{}, `[null]`},
		{nothing, `null`},
		{struct{ A **int }{A: &nothing}, `{"A":null}`},
	} {
		got, err := Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("Marshal(%#v) = %s, %v; want %s", c.v, got, err, c.want)
		}
	}
}

type ring struct {
	Next *ring
	Text string
}

type loop *loop

func TestMarshalRefusesAndSaysWhere(t *testing.T) {
	round := &ring{Text: "x"}
	round.Next = round
	var self loop
	self = &self
	selfMap := map[string]any{}
	selfMap["m"] = selfMap
	selfSlice := []any{1, nil}
	selfSlice[1] = selfSlice
	deep := any(1)
	for range MaxDepth + 1 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name       string
		v          any
		path, text string
	}{
		{"invalid UTF-8", map[string]any{"a": []any{"ok", "x\xffy"}}, "$.a[1]", "invalid UTF-8 in a string (byte 1 of it)"},
		{"invalid UTF-8 behind U+FFFD", "\ufffd\xff", "$", "(byte 3 of it)"},
		{"invalid UTF-8 in a name", map[string]any{"a": map[string]int{"\xff": 1}}, "$.a", "invalid UTF-8"},
		{"invalid UTF-8 in a quoted string", struct {
			S string `json:"s,string"`
		}{"\xc0"}, "$.s", "invalid UTF-8"},
		{"invalid UTF-8 from MarshalText", []any{byText{"\xff"}}, "$[0]", "invalid UTF-8"},
		{"invalid UTF-8 in raw JSON", struct{ R json.RawMessage }{json.RawMessage("[\"\xff\"]")}, "$.R", "invalid UTF-8"},
		{"invalid UTF-8 that MarshalJSON replaced", map[string]any{"r": []replacing{{"ok"}, {"\xff"}}}, "$.r[1]", "invalid UTF-8"},
		{"function", map[string]any{"f": func() {}}, "$.f", "func()"},
		{"nil function", struct{ F func() }{}, "$.F", "func()"},
		{"channel", []any{make(chan int)}, "$[0]", "chan int"},
		{"complex", 1i, "$", "complex128"},
		{"map with odd keys", map[string]any{"m": map[bool]int{true: 1}}, "$.m", "keys of type bool"},
		{"keys with one text", map[sameText]int{1: 1, 2: 2}, "$", "same text"},
		{"NaN", []float64{1, math.NaN()}, "$[1]", "NaN"},
		{"infinity", struct{ F float32 }{float32(math.Inf(-1))}, "$.F", "infinities"},
		{"overflow", map[string]json.Number{"n": "1e999"}, "$.n", "too large"},
		{"a number that is none", map[string]json.Number{"n": `1,"x":2`}, "$.n", "json.Number"},
		{"a number that is none", json.Number("NaN"), "$", "json.Number"},
		{"MarshalJSON with more than a value", map[string]any{"b": broken{`1,"x":2`}}, "$.b", "unexpected text after the value"},
		{"MarshalJSON with nothing", []any{broken{""}}, "$[0]", "unexpected end of text"},
		{"empty raw JSON", []any{json.RawMessage{}}, "$[0]", "unexpected end of text"},
		{"ring", round, "", "contains itself"},
		{"pointer to itself", self, "", "contains itself"},
		{"map in itself", selfMap, "", "contains itself"},
		{"slice in itself", selfSlice, "", "contains itself"},
		{"too deep", deep, "", "deeper than 10000 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Marshal(c.v)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v, want a SyntaxError", err)
			}
			if syntax.Offset != -1 || c.path != "" && syntax.Path != c.path || !strings.Contains(syntax.Msg, c.text) {
				t.Errorf("got %#v; want %q at %s", syntax, c.text, c.path)
			}
			if _, err := SumValue(c.v); err == nil {
				t.Error("SumValue accepts it")
			}
		})
	}
}

func TestMarshalAcceptsWhatIsDeepOrSharedButNoRing(t *testing.T) {
	deep, shared := any(1), &ring{Text: "s"}
	for range MaxDepth - 2 {
		deep = []any{deep}
	}
	inside := []any{shared, shared, deep}
	for range trustedDepth {
		inside = []any{&inside[0], inside[0], inside[1]}
	}
	for _, v := range []any{[]any{deep}, inside, [][]int{{}, {}}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Marshal(v)
		if want := strings.ReplaceAll(string(text), `"Next":null,`, ""); err != nil || string(got) != want {
			t.Errorf("Marshal: %v", err)
		}
	}
}

func TestMarshalWrapsErrorsOfMethods(t *testing.T) {
	_, err := Marshal(map[string]any{"a": failing{}})
	if !errors.Is(err, errFailing) || !strings.Contains(err.Error(), "$.a") {
		t.Errorf("got %v", err)
	}
}

// oddTags returns a struct with tags that no checker lets pass in source text.
func oddTags() any {
	var fields []reflect.StructField
	for i, tag := range []string{`a"b`, `a,b`, "-,", "-", ",string", ",,omitempty", "dup", "dup", " ", "\xff", "ok,unknown"} {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: reflect.TypeFor[**int](), Tag: reflect.StructTag("json:" + strconv.Quote(tag)),
		})
	}
	v := reflect.New(reflect.StructOf(fields)).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.ValueOf(new(new(i))))
	}
	return v.Interface()
}

func TestFieldRulesAreThoseOfEncodingJSON(t *testing.T) {
	type L1 struct{ X, Y int }
	type L2 struct {
		X int `json:"X"`
		Z int `json:"z"`
	}
	type L3 struct {
		L1
		*L2
		W int
	}
	type Named struct {
		L1 `json:"l1"`
		L2
	}
	type Twice struct {
		A struct{ L1 }
		L3
		L1
	}
	type notStruct int
	type Odd struct {
		notStruct
		Ünïcode int
		Dollar  int `json:"$%-/ x"`
		Comma   int `json:",omitempty"`
	}
	type self struct {
		*self
		N int
	}
	type left struct{ L1 }
	type right struct{ L1 }
	for _, v := range []any{
		L3{L1{1, 2}, &L2{3, 4}, 5}, L3{L1: L1{1, 2}}, Named{L1{1, 2}, L2{3, 4}}, Twice{L1: L1{7, 8}, L3: L3{L2: &L2{}}},
		Odd{1, 2, 3, 0}, Odd{Comma: 1}, self{N: 1, self: &self{N: 2}},
		oddTags(),
		struct {
			left
			right
		}{left{L1{1, 2}}, right{L1{3, 4}}},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Transform(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("Marshal(%+v)\n got %s, %v\nwant %s", v, got, err, want)
		}
	}
}
