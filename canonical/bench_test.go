package canonical

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var benchTexts = []struct{ name, raw string }{
	{"mail", `{"to":["ann@example.org","bob@example.org"],"subject":"Invoice 7 for \u00e9t\u00e9","body":"Dear all,\n\nplease find attached.\n` + strings.Repeat("A line of plain text that says little. ", 20) + `","headers":{"X-Ref":"7","Reply-To":"desk@example.org"},"attempt":1,"amount":12.50}`},
	{"records", "[" + strings.Repeat(`{"id":123456,"name":"Some Name","tags":["b","a"],"price":19.99,"nested":{"z":1,"a":null}},`, 10_000) + "0]"},
	{"numbers", "[" + strings.Repeat(`4.887898181599368e-150,0.1,123456789012345680000,-17,`, 10_000) + "0]"},
	{"text", `"` + strings.Repeat("plain text without escapes ", 40_000) + `"`},
	{"escapes", `"` + strings.Repeat(`\n\u00e9\"\ud83d\ude00`, 40_000) + `"`},
	{"members", manyMembers(50_000)},
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"key%d":%d`, (i*7919)%n, i)
	}
	return "{" + b.String()[1:] + "}"
}

func BenchmarkTransform(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Transform(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSum(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Sum(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type benchMail struct {
	To      []string          `json:"to"`
	Subject string            `json:"subject"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	Attempt int               `json:"attempt"`
	Raw     json.RawMessage   `json:"raw"`
}

var benchValue = benchMail{
	To: []string{"ann@example.org", "bob@example.org"}, Subject: "Invoice 7", Body: strings.Repeat("A line of plain text. ", 40),
	Headers: map[string]string{"X-Ref": "7", "Reply-To": "desk@example.org"}, Attempt: 1, Raw: json.RawMessage(`{"b":1,"a":[]}`),
}

func BenchmarkSumValue(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := SumValue(benchValue); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSON is there to compare with.
func BenchmarkEncodingJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(benchValue); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSumOfAnOrdinaryTextAllocatesTwice(t *testing.T) {
	raw := []byte(benchTexts[0].raw)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := Sum(raw); err != nil {
			t.Fatal(err)
		}
	}); got > 2 {
		t.Errorf("%v allocations, want one index and one buffer", got)
	}
}

// TestLargeTextsTakeLinearTime has texts that are slow for some obvious
// algorithm: copying at every level, looking for the closing quote at every
// escape, comparing each name with each. They take well under a second each, and
// far more than the limit where the work grows with the square of the size.
func TestLargeTextsTakeLinearTime(t *testing.T) {
	const n, limit = 100_000, 10 * time.Second
	for name, raw := range map[string]string{
		"escapes before a long run": `"` + strings.Repeat(`\nx`, n) + strings.Repeat("x", n*100) + `"`,
		"escaped quotes":            `"` + strings.Repeat(`\"x`, n) + `"`,
		"unsorted at every level":   strings.Repeat(`{"b":0,"a":`, MaxDepth) + `"` + strings.Repeat("y", n*100) + `"` + strings.Repeat("}", MaxDepth),
		"one name many times":       "{" + strings.Repeat(`"a":{"b":1,"b":2},`, n) + `"a":1}`,
		"many names":                manyMembers(n),
		"many objects":              "[" + strings.Repeat("{},", n) + "1]",
		"long number":               strings.Repeat("9", n*5) + "e-" + fmt.Sprint(n*5),
	} {
		started := time.Now()
		if _, err := Sum([]byte(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(started); took > limit {
			t.Errorf("%s: %d bytes took %v", name, len(raw), took)
		}
	}
}
