package canonical

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// generator makes JSON texts of every shape the format has an opinion on.
type generator struct {
	*rand.Rand
	buf []byte
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))}
}

func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// text returns one text: mostly valid, one in eight damaged.
func (g *generator) text() []byte {
	g.buf = g.buf[:0]
	switch {
	case g.oneIn(4000):
		g.deep(MaxDepth - 2 + g.IntN(5))
	case g.oneIn(50):
		g.deep(1 + g.IntN(60))
	default:
		g.space()
		g.value(1 + g.IntN(4))
		g.space()
	}
	text := slices.Clone(g.buf)
	if g.oneIn(8) {
		text = g.damage(text)
	}
	return text
}

func (g *generator) add(s string) { g.buf = append(g.buf, s...) }

func (g *generator) space() {
	for g.oneIn(6) {
		g.buf = append(g.buf, " \t\n\r"[g.IntN(4)])
	}
}

func (g *generator) value(depth int) {
	n := g.IntN(10)
	switch {
	case depth > 0 && n < 3:
		g.object(depth)
	case depth > 0 && n < 5:
		g.array(depth)
	case n < 8:
		g.number()
	case n < 9:
		g.str()
	default:
		g.add([]string{"true", "false", "null"}[g.IntN(3)])
	}
}

func (g *generator) array(depth int) {
	g.add("[")
	for i := range g.IntN(5) {
		if i > 0 {
			g.add(",")
		}
		g.space()
		g.value(depth - 1)
		g.space()
	}
	g.add("]")
}

func (g *generator) object(depth int) {
	g.add("{")
	size := g.IntN(6)
	if g.oneIn(30) {
		size = g.IntN(60) // more than one run of the sort
	}
	for i := range size {
		if i > 0 {
			g.add(",")
		}
		g.space()
		g.name()
		g.space()
		g.add(":")
		g.space()
		g.value(depth - 1)
		g.space()
	}
	g.add("}")
}

func (g *generator) deep(n int) {
	var closing []byte
	for range n {
		if g.oneIn(2) {
			g.add("[")
			closing = append(closing, ']')
		} else {
			g.add(`{"` + string(rune('a'+g.IntN(3))) + `":`)
			closing = append(closing, '}')
		}
	}
	g.value(0)
	slices.Reverse(closing)
	g.buf = append(g.buf, closing...)
}

// names is small, so that duplicates are common, also in two spellings.
var names = []string{
	"", "0", "1", "2", "10", "01", "-1", "4294967294", "4294967295", "9007199254740993", "1e3", "a", "b", "B", "_z",
	"__proto__", "constructor", "toString", "length", "\u20ac", "\r", "\u0080", "\u00f6", "\ue000", "\uffff", "\ufb33",
	"\U0001F600", "\U00010000", "\U0010FFFF", "\u2028", "\ufeff", "ab", "a\u0000", "a\U0001F600", "a\ue000", "\"", "\\", "/", "\x7f",
}

func (g *generator) name() {
	if g.oneIn(4) {
		g.str()
		return
	}
	g.add(`"`)
	for _, r := range names[g.IntN(len(names))] {
		g.char(r)
	}
	if g.oneIn(8) {
		g.surrogate()
	}
	g.add(`"`)
}

func (g *generator) str() {
	g.add(`"`)
	n := g.IntN(12)
	if g.oneIn(20) {
		n = g.IntN(200)
	}
	for range n {
		switch g.IntN(8) {
		case 0:
			g.char(rune(g.IntN(0x80)))
		case 1:
			g.char(rune(0x80 + g.IntN(0xD800-0x80)))
		case 2:
			g.char(rune(0xE000 + g.IntN(0x2000)))
		case 3:
			g.char(rune(0x10000 + g.IntN(0x100000)))
		case 4:
			if g.oneIn(3) {
				g.surrogate()
			}
		default:
			g.char(rune('a' + g.IntN(26)))
		}
	}
	g.add(`"`)
}

// char writes a character as itself or as an escape.
func (g *generator) char(r rune) {
	short := strings.IndexRune("\b\f\n\r\t\"\\/", r)
	switch {
	case short >= 0 && g.oneIn(2):
		g.buf = append(g.buf, '\\', `bfnrt"\/`[short])
	case r < ' ' || r == '"' || r == '\\' || g.oneIn(6):
		if r >= 0x10000 {
			g.unit(0xD800 + (r-0x10000)>>10)
			g.unit(0xDC00 + (r-0x10000)&0x3FF)
			return
		}
		g.unit(r)
	default:
		g.buf = append(g.buf, string(r)...)
	}
}

func (g *generator) surrogate() { g.unit(rune(0xD800 + g.IntN(0x800))) }

func (g *generator) unit(r rune) {
	digits := "0123456789abcdef"
	if g.oneIn(2) {
		digits = "0123456789ABCDEF"
	}
	g.buf = append(g.buf, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

var edgeNumbers = strings.Fields(`0 -0 0.0 -0.0 0e0 -0e-5 1 -1 1.0 10 100 1e0 1E+2 1e-7 1e-6 0.000001 0.0000001 1e21 1e20 999999999999999900000
	999999999999999999999 123456789012345680000 9007199254740991 9007199254740992 9007199254740993 -9007199254740993 18446744073709551615
	9223372036854775807 5e-324 4.9e-324 2.4703282292062327e-324 2.4703282292062328e-324 1e-400 -1e-400 2.2250738585072014e-308
	2.2250738585072011e-308 1.7976931348623157e308 1.7976931348623158e308 1.7976931348623159e308 1.797693134862315808e308 1e308 1e309 -1e309
	1e400 1e999999999999999999999 1e-999999999999999999999 0e999999999999999999999 5.684341886080802e-14 5.6843418860808015e-14 0.1 0.2 0.3
	0.30000000000000004 1.1e1 333333333.33333329 1E30 4.50 2e-3 0.000000000000000000000000001 123456789012345 1234567890123456 12345678901234567
	9007199254740993.0 900719925474099.3e1`)

func (g *generator) number() {
	if g.oneIn(2) {
		g.randomBits()
		return
	}
	switch g.IntN(5) {
	case 0:
		g.add(edgeNumbers[g.IntN(len(edgeNumbers))])
	case 1:
		g.add(strconv.Itoa(g.IntN(2000) - 1000))
	case 2: // integers of every length
		g.sign()
		g.buf = append(g.buf, byte('1'+g.IntN(9)))
		g.digits(g.IntN(25))
	case 3: // powers of two, where the distance to the neighbours changes
		g.buf = strconv.AppendFloat(g.buf, math.Ldexp(1, g.IntN(2098)-1074), 'e', -1, 64)
	default: // as people and programs write them
		g.sign()
		g.buf = append(g.buf, byte('1'+g.IntN(9)))
		g.digits(g.IntN(20))
		if g.oneIn(2) {
			g.add(".")
			g.digits(1 + g.IntN(30))
		}
		if g.oneIn(2) {
			g.buf = append(g.buf, "eE"[g.IntN(2)])
			g.add([]string{"", "+", "-"}[g.IntN(3)])
			g.add(strconv.Itoa(g.IntN(330)))
		}
	}
}

// randomBits writes the double of a random 64-bit pattern in one of many
// spellings. Infinities and NaN become a number that is too large.
func (g *generator) randomBits() {
	f := math.Float64frombits(g.Uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		g.add("1e309")
		return
	}
	switch g.IntN(4) {
	case 0:
		g.buf = strconv.AppendFloat(g.buf, f, 'e', -1, 64)
	case 1:
		g.buf = strconv.AppendFloat(g.buf, f, 'e', 10+g.IntN(15), 64)
	case 2:
		g.buf = strconv.AppendFloat(g.buf, f, 'e', 16, 64)
	default:
		if math.Abs(f) > 1e60 || math.Abs(f) < 1e-60 {
			g.buf = strconv.AppendFloat(g.buf, f, 'E', -1, 64)
			return
		}
		g.buf = strconv.AppendFloat(g.buf, f, 'f', -1, 64)
	}
}

func (g *generator) sign() {
	if g.oneIn(2) {
		g.add("-")
	}
}

func (g *generator) digits(n int) {
	for range n {
		g.buf = append(g.buf, byte('0'+g.IntN(10)))
	}
}

var odd = []string{
	"\x00", "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x28\xa1", "\xf0\x9f\x98", "\ufeff", "\u00a0", "\u2028", "\v", "\f", ",", ":", "]",
	"}", "[", "{", `"`, "'", `\`, `\u`, `\u12`, `\ud8`, `\x41`, "+", "-", ".", "e", "0", "00", "1.", ".5", "1e", "1e+", "NaN", "Infinity", "undefined",
	"nul", "tru", "True", "//", "/**/", " ", "\n", "\t", "1 2", "[1,]", `{"a":1,}`, `{a:1}`, `{"a"}`, "[,]", "0x10", "1_0", "-", "--1", "+1", "01", "-01",
}

// damage makes a text invalid, most of the time.
func (g *generator) damage(text []byte) []byte {
	for range 1 + g.IntN(2) {
		i := g.IntN(len(text) + 1)
		switch g.IntN(5) {
		case 0:
			text = text[:i]
		case 1:
			text = slices.Insert(text, i, []byte(odd[g.IntN(len(odd))])...)
		case 2:
			if i < len(text) {
				text = slices.Delete(text, i, i+1)
			}
		case 3:
			if i < len(text) {
				text[i] = byte(g.IntN(256))
			}
		default:
			j := i + g.IntN(len(text)-i+1)
			text = slices.Insert(text, j, text[i:j]...)
			if len(text) > 1<<20 {
				text = text[:1<<20]
			}
		}
	}
	return text
}
