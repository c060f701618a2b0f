package canonical

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSumExactRefusesTextsThatTwoReadersTakeForTwoThings(t *testing.T) {
	for _, row := range []struct{ name, text, at, says string }{
		{"a name twice", `{"to":"a","to":"b"}`, "$", "twice"},
		{"a name twice, in two spellings", `{"to":"a","\u0074o":"b"}`, "$", "twice"},
		{"a name twice, far apart", `{"a":1,"b":2,"c":3,"a":1}`, "$", "twice"},
		{"a name twice, within", `{"x":[{},{"headers":{"A":"1"},"headers":{}}]}`, "$.x[1]", "twice"},
		{"a name twice, in what a later one replaces", `{"x":{"a":1,"a":2},"x":1}`, "$.x", "twice"},
		{"an integer that a double rounds", `{"wei":9007199254740993}`, "$.wei", "string"},
		{"a negative one", `[-9007199254740993]`, "$[0]", "string"},
		{"a fraction that a double rounds", `{"price":0.1000000000000000055511151231257827}`, "$.price", "string"},
		{"a number that becomes zero", `1e-400`, "$", "string"},
		{"a power that no integer holds", `1e-99999999999999999999`, "$", "string"},
	} {
		_, err := SumExact([]byte(row.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Path != row.at || !strings.Contains(syntax.Msg, row.says) {
			t.Errorf("%s: got %v, want %s at %s", row.name, err, row.says, row.at)
		}
		if _, err := Sum([]byte(row.text)); err != nil {
			t.Errorf("%s: the form itself has no fault: %v", row.name, err)
		}
	}
}

func TestSumExactIsTheSameDigest(t *testing.T) {
	for _, text := range []string{
		`{"z":100,"a":"dreamnet-spore","m":{"b":true,"a":null}}`, `{"a":{"a":1},"b":[{"a":1},{"a":2}],"A":3}`,
		`[0,-0,0.0,1.0,1.50,0.1,1e2,1E+2,100e-2,123456789012345680000,9007199254740992,1e21,1.7976931348623157e308,5e-324,0e99999999999999]`,
		`"a\u0000b"`, ` { } `, `"` + strings.Repeat("x", 3*chunk) + `"`,
	} {
		want, err := Sum([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SumExact([]byte(text)); err != nil || got != want {
			t.Errorf("%.40s: %v, %v", text, got, err)
		}
	}
}

// What the canonical form itself holds is never refused: it tells everything apart.
func TestSumExactTakesEveryCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "number")
		text := appendFloat(nil, f)
		if _, err := SumExact(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}
