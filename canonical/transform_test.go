package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestTransformWritesOneFormForEveryValue(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"astral names come before U+E000", "{\"\ue000\":1,\"\U0001F600\":2,\"\uffff\":3,\"z\":4}", "{\"z\":4,\"\U0001F600\":2,\"\ue000\":1,\"\uffff\":3}"},
		{"astral names by escape sort alike", `{"\ue000":1,"\ud83d\ude00":2,"\uffff":3}`, "{\"\U0001F600\":2,\"\ue000\":1,\"\uffff\":3}"},
		{"duplicate names in two spellings", `{"\u0061":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"duplicate names: the last one wins", `{"a":1,"b":{"x":1},"a":{"y":2,"x":1},"a":3}`, `{"a":3,"b":{"x":1}}`},
		{"escapes", `"\u0000\u001F\u007f\/\"\\\b\f\n\r\t\u003c\u2028\u00e9"`, "\"\\u0000\\u001f\x7f/\\\"\\\\\\b\\f\\n\\r\\t<\u2028é\""},
		{"lone surrogates keep their escape", `"\uD800 \uDFFF\uD83D\uD83D\uDE00\uDE00"`, `"\ud800 \udfff\ud83d` + "\U0001F600" + `\ude00"`},
		{"members inside members", `{"b":[{"d":1,"c":[{"f":1,"e":2}]},{}],"a":{"h":{},"g":[]}}`, `{"a":{"g":[],"h":{}},"b":[{"c":[{"e":2,"f":1}],"d":1},{}]}`},
		{"names are sorted as text", `{"10":1,"9":2,"":3}`, `{"":3,"10":1,"9":2}`},
		{"names that are prefixes", `{"ab":1,"a":2,"a\u0000":3,"abc":4}`, `{"a":2,"a\u0000":3,"ab":1,"abc":4}`},
		{"white space", " \t\r\n{ \"a\" : [ 1 , 2 ] } \n", `{"a":[1,2]}`},
		{"no escaping of HTML", `"<script>&amp;/"`, `"<script>&amp;/"`},
		{"escaped quotes", `"\"\"\\\"x\""`, `"\"\"\\\"x\""`},
		{"an overflow that a later duplicate replaces", `{"a":1e999,"a":1}`, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Transform([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("Transform(%s)\n got %s\nwant %s", c.raw, got, c.want)
			}
		})
	}
}

func TestNumbersPrintAsECMAScriptPrintsThem(t *testing.T) {
	for raw, want := range map[string]string{
		"-0": "0", "0.0": "0", "-0e5": "0", "1.0": "1", "1e0": "1", "1E2": "100", "-1e-1": "-0.1",
		"1e21": "1e+21", "1e20": "100000000000000000000", "999999999999999999999": "1e+21", "123456789012345680000": "123456789012345680000",
		"1e-6": "0.000001", "1e-7": "1e-7", "0.0000001": "1e-7", "1.5e-10": "1.5e-10", "1e-100": "1e-100",
		"9007199254740993": "9007199254740992", "9007199254740995": "9007199254740996", "18446744073709551615": "18446744073709552000",
		"123456789012345": "123456789012345", "1234567890123456789": "1234567890123456800",
		"5e-324": "5e-324", "2.4703282292062328e-324": "5e-324", "2.4703282292062327e-324": "0", "1e-999999999999": "0", "0e999999999999": "0",
		"1.7976931348623158e308": "1.7976931348623157e+308", "5.6843418860808015e-14": "5.684341886080802e-14",
		"0.1": "0.1", "0.30000000000000004": "0.30000000000000004", "333333333.33333329": "333333333.3333333", "4.50": "4.5",
	} {
		got, err := Transform([]byte(raw))
		if err != nil || string(got) != want {
			t.Errorf("Transform(%s) = %s, %v; want %s", raw, got, err, want)
		}
	}
}

func TestRefusalsSayWhere(t *testing.T) {
	for _, c := range []struct {
		raw    string
		offset int64
		path   string
	}{
		{"", 0, "$"},
		{" ", 1, "$"},
		{"\ufeff1", 0, "$"},
		{"nul", 0, "$"},
		{"01", 1, "$"},
		{"-", 1, "$"},
		{"1.", 2, "$"},
		{"1e+", 3, "$"},
		{".5", 0, "$"},
		{"+1", 0, "$"},
		{"NaN", 0, "$"},
		{"1 2", 2, "$"},
		{"[1,]", 3, "$[1]"},
		{"[1 2]", 3, "$[0]"},
		{"[", 1, "$[0]"},
		{"[1,[2,3,tru]]", 8, "$[1][2]"},
		{`{"a":1,}`, 7, "$"},
		{`{a:1}`, 1, "$"},
		{`{"a" 1}`, 5, "$"},
		{`{"a":}`, 5, "$.a"},
		{`{"a":{"b":[0,{"c d":1e309}]}}`, 20, `$.a.b[1]["c d"]`},
		{`{"a":[-1e400]}`, 6, "$.a[0]"},
		{`{"a":"` + "\xff" + `"}`, 6, "$.a"},
		{`{"a` + "\xed\xa0\x80" + `":1}`, 3, "$"},
		{`["ok","` + "\x01" + `"]`, 7, "$[1]"},
		{`["\x"]`, 2, "$[0]"},
		{`["\u12g4"]`, 2, "$[0]"},
		{`["\`, 3, "$[0]"},
		{`["abc`, 5, "$[0]"},
		{`{"a":1}}`, 7, "$"},
		{"1\x00", 1, "$"},
		{`{"":{"":x}}`, 8, `$[""][""]`},
		{strings.Repeat("[", MaxDepth+1), MaxDepth, ""},
	} {
		_, err := Transform([]byte(c.raw))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("Transform(%.40q) = %v, want a SyntaxError", c.raw, err)
			continue
		}
		if syntax.Offset != c.offset || c.path != "" && syntax.Path != c.path {
			t.Errorf("Transform(%.40q): %v; want byte %d at %s", c.raw, err, c.offset, c.path)
		}
		if _, err := Sum([]byte(c.raw)); err == nil || err.Error() != syntax.Error() {
			t.Errorf("Sum(%.40q) = %v, Transform says %v", c.raw, err, syntax)
		}
		if len(err.Error()) > 400 {
			t.Errorf("the error of %.40q has %d bytes", c.raw, len(err.Error()))
		}
	}
}

func TestErrorsDoNotQuoteLongNames(t *testing.T) {
	raw := `{"` + strings.Repeat("é", 5000) + `":{"b":!}}`
	_, err := Transform([]byte(raw))
	if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), `…"].b`) {
		t.Errorf("got %v", err)
	}
}

func TestDepthLimitIsExact(t *testing.T) {
	for _, unit := range []struct{ open, shut string }{{"[", "]"}, {`{"a":`, "}"}} {
		nested := func(n int) []byte {
			return []byte(strings.Repeat(unit.open, n) + "1" + strings.Repeat(unit.shut, n))
		}
		if got, err := Transform(nested(MaxDepth)); err != nil || !bytes.Equal(got, nested(MaxDepth)) {
			t.Errorf("depth %d is refused: %v", MaxDepth, err)
		}
		if _, err := Transform(nested(MaxDepth + 1)); err == nil {
			t.Errorf("depth %d is accepted", MaxDepth+1)
		}
	}
}

func TestTransformAgreesWithTheOracleAndIsIdempotent(t *testing.T) {
	g := newGenerator(7)
	accepted := 0
	for range 8_000 {
		if text := g.text(); len(text) < 2000 && checkAgainstOracle(t, text) {
			accepted++
		}
	}
	if accepted < 4_000 {
		t.Errorf("only %d texts were valid", accepted)
	}
}

// Strings are read eight bytes at a time: no byte may hide between them.
func TestEveryByteCountsAtEveryPlace(t *testing.T) {
	for _, around := range []string{"abcdefghijklmnopqrst", "zzzzzzzz\u007f\u007f\u007f\u007f!!!!!!!!"} {
		for at := range len(around) {
			for b := range 256 {
				raw := []byte(`"` + around + `"`)
				raw[1+at] = byte(b)
				checkAgainstOracle(t, raw)
				checkAgainstOracle(t, []byte(`{"b":1,`+string(raw)+`:2}`))
			}
		}
	}
}

// checkAgainstOracle holds every property of one text. It reports whether the
// text was accepted.
func checkAgainstOracle(t *testing.T, raw []byte) bool {
	t.Helper()
	before := bytes.Clone(raw)
	got, err := Transform(raw)
	if !bytes.Equal(before, raw) {
		t.Fatalf("Transform changed its input %q", before)
	}
	want, wantErr := oracle(raw)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("Transform(%q): %v; the oracle: %v", raw, err, wantErr)
	}
	d, sumErr := Sum(raw)
	if (sumErr == nil) != (err == nil) {
		t.Fatalf("Sum(%q): %v; Transform: %v", raw, sumErr, err)
	}
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(raw)) || syntax.Path[0] != '$' {
			t.Fatalf("Transform(%q): %#v does not say where", raw, err)
		}
		return false
	}
	if string(got) != want {
		t.Fatalf("Transform(%q)\n got %q\nwant %q", raw, got, want)
	}
	if !json.Valid(got) {
		t.Fatalf("Transform(%q) is not JSON: %q", raw, got)
	}
	again, err := Transform(got)
	if err != nil || !bytes.Equal(again, got) {
		t.Fatalf("not idempotent for %q: %q then %q, %v", raw, got, again, err)
	}
	if d != sha256.Sum256(got) {
		t.Fatalf("Sum(%q) is not the digest of the form", raw)
	}
	return true
}

func TestSumStreamsLargeTexts(t *testing.T) {
	long := strings.Repeat("long text \\n with \\u00e9 ", 20_000)
	for _, raw := range []string{
		`{"b":"` + strings.Repeat("x", 3*chunk) + `","a":"` + long + `"}`,
		"[" + strings.Repeat(`{"b":1e20,"a":[1,2.50,"x"]},`, 50_000) + "0]",
		`"` + strings.Repeat("é", chunk) + `"`,
		strings.Repeat(`{"b":0,"a":`, 5000) + `"` + strings.Repeat("y", 2*chunk) + `"` + strings.Repeat("}", 5000),
	} {
		form, err := Transform([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Sum([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if d != SumBytes(form) {
			t.Errorf("Sum of a text of %d bytes differs from the digest of its form", len(raw))
		}
	}
}

func TestAppendTransformKeepsWhatIsThere(t *testing.T) {
	dst := []byte("before ")
	got, err := AppendTransform(dst, []byte(`{"b":1,"a":2}`))
	if err != nil || string(got) != `before {"a":2,"b":1}` {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = AppendTransform(dst, []byte(`{"b":1,"a":1e999}`))
	if err == nil || string(got) != "before " {
		t.Errorf("after a refusal: %q, %v", got, err)
	}
}

func FuzzTransform(f *testing.F) {
	for _, s := range []string{
		`{"2":4,"10":3,"B":1,"a":2,"_z":5}`, `{"a":1,"\u0061":2}`, `"\ud83d\ude00\ud83d"`, `[1e21,-0,5e-324,9007199254740993,1e309]`,
		"{\"\ue000\":1,\"\U0001F600\":2}", `{"b":{"d":[],"c":{}},"a":"\"\\\/\b\f\n\r\t"}`, "\"\xed\xa0\x80\"", `[[[[`, `{"a":1e999,"a":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) <= 1<<14 { // the oracle is quadratic
			checkAgainstOracle(t, raw)
		}
	})
}
