package canonical

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// oracle is a second, slow implementation for the tests. It shares no code
// with the first: it builds a tree, keeps strings as UTF-16 and finds the
// digits of a number by trying.
func oracle(raw []byte) (string, error) {
	if !utf8.Valid(raw) {
		return "", errors.New("invalid UTF-8")
	}
	p := &oracleReader{in: []rune(string(raw))}
	v, err := p.value(0)
	if err != nil {
		return "", err
	}
	if p.peek() != 0 {
		return "", errors.New("something follows")
	}
	var b strings.Builder
	if err := oracleWrite(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

type (
	oracleMember struct {
		name  []uint16
		value any
	}
	oracleObject []oracleMember
	oracleArray  []any
	oracleString []uint16
	oracleNumber float64
	oracleWord   string
)

type oracleReader struct {
	in []rune
	at int
}

// peek returns the next rune that is not white space, 0 at the end.
func (p *oracleReader) peek() rune {
	for p.at < len(p.in) && strings.ContainsRune(" \t\r\n", p.in[p.at]) {
		p.at++
	}
	if p.at == len(p.in) {
		return 0
	}
	if p.in[p.at] == 0 {
		return utf8.RuneError
	}
	return p.in[p.at]
}

func (p *oracleReader) take(r rune) bool {
	if p.peek() != r {
		return false
	}
	p.at++
	return true
}

func (p *oracleReader) value(depth int) (any, error) {
	switch r := p.peek(); r {
	case '{', '[':
		p.at++
		if depth == MaxDepth {
			return nil, errors.New("too deep")
		}
		if r == '[' {
			return p.array(depth + 1)
		}
		return p.object(depth + 1)
	case '"':
		return p.str()
	}
	start := p.at
	for p.at < len(p.in) && !strings.ContainsRune(" \t\r\n,:[]{}\"", p.in[p.at]) {
		p.at++
	}
	token := string(p.in[start:p.at])
	if token == "true" || token == "false" || token == "null" {
		return oracleWord(token), nil
	}
	return oracleNumberOf(token)
}

func (p *oracleReader) array(depth int) (any, error) {
	out := oracleArray{}
	if p.take(']') {
		return out, nil
	}
	for {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if p.take(']') {
			return out, nil
		}
		if !p.take(',') {
			return nil, errors.New("no comma in array")
		}
	}
}

func (p *oracleReader) object(depth int) (any, error) {
	out := oracleObject{}
	if p.take('}') {
		return out, nil
	}
	for {
		if p.peek() != '"' {
			return nil, errors.New("no name")
		}
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, errors.New("no colon")
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(out, func(m oracleMember) bool { return slices.Equal(m.name, name) })
		out = append(out, oracleMember{name, v})
		if p.take('}') {
			return out, nil
		}
		if !p.take(',') {
			return nil, errors.New("no comma in object")
		}
	}
}

func (p *oracleReader) str() (oracleString, error) {
	p.at++
	var out oracleString
	for ; p.at < len(p.in); p.at++ {
		r := p.in[p.at]
		switch {
		case r == '"':
			p.at++
			return out, nil
		case r < ' ':
			return nil, errors.New("control character")
		case r != '\\':
			out = utf16.AppendRune(out, r)
			continue
		}
		p.at++
		rest := string(p.in[p.at:min(p.at+5, len(p.in))])
		if rest == "" {
			return nil, errors.New("open escape")
		}
		if i := strings.IndexByte(`"\/bfnrt`, rest[0]); i >= 0 {
			out = append(out, uint16("\"\\/\b\f\n\r\t"[i]))
			continue
		}
		if rest[0] != 'u' || len(rest) != 5 {
			return nil, errors.New("bad escape")
		}
		u, err := strconv.ParseUint(rest[1:], 16, 16)
		if err != nil || strings.ContainsAny(rest, "+-_") {
			return nil, errors.New("bad digits")
		}
		out = append(out, uint16(u))
		p.at += 4
	}
	return nil, errors.New("open string")
}

func oracleNumberOf(token string) (any, error) {
	rest := strings.TrimPrefix(token, "-")
	digits := func() int {
		n := len(rest)
		rest = strings.TrimLeft(rest, "0123456789")
		return n - len(rest)
	}
	zero := strings.HasPrefix(rest, "0")
	if n := digits(); n == 0 || zero && n > 1 {
		return nil, fmt.Errorf("bad token %q", token)
	}
	if after, ok := strings.CutPrefix(rest, "."); ok {
		if rest = after; digits() == 0 {
			return nil, errors.New("bad fraction")
		}
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		if rest = rest[1:]; rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		if digits() == 0 {
			return nil, errors.New("bad exponent")
		}
	}
	if rest != "" {
		return nil, fmt.Errorf("bad token %q", token)
	}
	f, _ := strconv.ParseFloat(token, 64)
	return oracleNumber(f), nil
}

func oracleWrite(b *strings.Builder, v any) error {
	switch v := v.(type) {
	case oracleWord:
		b.WriteString(string(v))
	case oracleNumber:
		return oracleWriteNumber(b, float64(v))
	case oracleString:
		oracleWriteString(b, v)
	case oracleArray:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := oracleWrite(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case oracleObject:
		slices.SortFunc(v, func(x, y oracleMember) int { return slices.Compare(x.name, y.name) })
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			oracleWriteString(b, m.name)
			b.WriteByte(':')
			if err := oracleWrite(b, m.value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	}
	return nil
}

func oracleWriteString(b *strings.Builder, units []uint16) {
	b.WriteByte('"')
	for i := 0; i < len(units); i++ {
		u := units[i]
		if utf16.IsSurrogate(rune(u)) {
			if i+1 < len(units) {
				if r := utf16.DecodeRune(rune(u), rune(units[i+1])); r != utf8.RuneError {
					b.WriteRune(r)
					i++
					continue
				}
			}
			fmt.Fprintf(b, `\u%04x`, u)
			continue
		}
		short := strings.IndexRune("\"\\\b\f\n\r\t", rune(u))
		switch {
		case short >= 0:
			b.WriteString(`\` + `"\bfnrt`[short:short+1])
		case u < ' ':
			fmt.Fprintf(b, `\u%04x`, u)
		default:
			b.WriteRune(rune(u))
		}
	}
	b.WriteByte('"')
}

// oracleWriteNumber follows Number::toString of ECMA-262 step by step.
func oracleWriteNumber(b *strings.Builder, f float64) error {
	switch {
	case math.IsInf(f, 0):
		return errors.New("overflow")
	case f == 0:
		b.WriteByte('0')
		return nil
	case f < 0:
		b.WriteByte('-')
		f = -f
	}
	var digits string
	var n int // the value is 0.digits times ten to the n
	for precision := 0; digits == ""; precision++ {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', precision, 64), "e")
		nearest, _ := strconv.ParseInt(strings.Replace(mantissa, ".", "", 1), 10, 64)
		e, _ := strconv.Atoi(exponent)
		// Beside a power of two the nearest decimal may belong to the
		// neighbour, while the next one still reads back.
		for _, try := range []int64{nearest, nearest + 1, nearest - 1} {
			text := strconv.FormatInt(try, 10)
			back, _ := strconv.ParseFloat(fmt.Sprintf("%se%d", text, e-precision), 64)
			if back == f {
				digits, n = text, e-precision+len(text)
				break
			}
		}
	}
	digits = strings.TrimRight(digits, "0")
	k := len(digits)
	switch {
	case k <= n && n <= 21:
		b.WriteString(digits + strings.Repeat("0", n-k))
	case 0 < n && n <= 21:
		b.WriteString(digits[:n] + "." + digits[n:])
	case -6 < n && n <= 0:
		b.WriteString("0." + strings.Repeat("0", -n) + digits)
	default:
		b.WriteString(digits[:1])
		if k > 1 {
			b.WriteString("." + digits[1:])
		}
		fmt.Fprintf(b, "e%+d", n-1)
	}
	return nil
}
