package canonical

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is how many bytes a streaming sink gathers before it feeds the hash.
const chunk = 16 << 10

// sink receives the canonical form: all of it in buf, or, when stream is set,
// in pieces into a hash that is made when the first piece is full.
type sink struct {
	raw    []byte // the text that is read
	buf    []byte
	stream bool
	exact  bool // refuse what the canonical form would not tell apart
	hash   hash.Hash
}

func (s *sink) flush() {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Write(s.buf) // a hash never fails
	s.buf = s.buf[:0]
}

// spill flushes when a piece is full.
func (s *sink) spill() {
	if s.stream && len(s.buf) >= chunk {
		s.flush()
	}
}

func (s *sink) sum() Digest {
	if s.hash == nil {
		return sha256.Sum256(s.buf)
	}
	s.flush()
	return Digest(s.hash.Sum(nil))
}

// value writes the accepted value at i. obj is the number of the next object
// that opens at or after i. It returns both for what follows the value. The
// only possible error is a number too large for a double: a member that a
// later one of the same name replaces is never written, so its numbers do not
// count.
func (s *sink) value(x *index, i, obj int) (end, next int, err error) {
	s.spill()
	switch c := s.raw[i]; c {
	case '"':
		return s.str(i), obj, nil
	case '{':
		return s.object(x, obj)
	case '[':
		return s.array(x, i, obj)
	case 't', 'n':
		s.buf = append(s.buf, s.raw[i:i+4]...)
		return i + 4, obj, nil
	case 'f':
		s.buf = append(s.buf, s.raw[i:i+5]...)
		return i + 5, obj, nil
	default:
		end, _ = scanNumber(s.raw, i)
		var ok bool
		written := len(s.buf)
		if s.buf, ok = appendNumber(s.buf, s.raw[i:end]); !ok {
			return end, obj, x.fail(i, "number is too large for a double")
		}
		if s.exact && !sameNumber(s.raw[i:end], s.buf[written:]) {
			return end, obj, x.fail(i, "number has more digits than a double keeps; write it as a string")
		}
		return end, obj, nil
	}
}

func (s *sink) object(x *index, obj int) (end, next int, err error) {
	o := x.objects[obj]
	s.buf = append(s.buf, '{')
	for n := range o.count {
		m := x.members[o.first+n]
		if n > 0 {
			s.buf = append(s.buf, ',')
		}
		s.str(int(m.name) - 1)
		s.buf = append(s.buf, ':')
		if _, _, err := s.value(x, int(m.value), int(m.objects)); err != nil {
			return 0, 0, err
		}
	}
	s.buf = append(s.buf, '}')
	return int(o.end), int(o.next), nil
}

func (s *sink) array(x *index, i, obj int) (end, next int, err error) {
	s.buf = append(s.buf, '[')
	i = skipSpace(s.raw, i+1)
	for s.raw[i] != ']' {
		if i, obj, err = s.value(x, i, obj); err != nil {
			return i, obj, err
		}
		i = skipSpace(s.raw, i)
		if s.raw[i] == ',' {
			s.buf = append(s.buf, ',')
			i = skipSpace(s.raw, i+1)
		}
	}
	s.buf = append(s.buf, ']')
	return i + 1, obj, nil
}

// str writes the accepted string that opens at i and returns the offset after
// it. Without escapes it is canonical already.
func (s *sink) str(i int) int {
	raw := s.raw
	s.buf = append(s.buf, '"')
	i++
	quote := i
	for {
		if raw[quote] != '"' || quote < i { // the last one found was itself escaped
			quote = i + bytes.IndexByte(raw[i:], '"')
		}
		slash := bytes.IndexByte(raw[i:quote], '\\')
		if slash < 0 {
			s.copy(raw[i:quote])
			s.buf = append(s.buf, '"')
			return quote + 1
		}
		s.spill()
		s.copy(raw[i : i+slash])
		i += slash
		for raw[i] == '\\' {
			unit, size := unescape(raw, i)
			i += size
			if utf16.IsSurrogate(rune(unit)) && raw[i] == '\\' && raw[i+1] == 'u' {
				low, _ := hex4(raw, i+2)
				if r := utf16.DecodeRune(rune(unit), rune(low)); r != utf8.RuneError {
					s.buf = utf8.AppendRune(s.buf, r)
					i += 6
					continue
				}
			}
			s.buf = appendUnit(s.buf, unit)
		}
	}
}

func (s *sink) copy(run []byte) {
	if s.stream && len(run) >= chunk {
		s.flush()
		s.hash.Write(run)
		return
	}
	s.buf = append(s.buf, run...)
}

const hexDigits = "0123456789abcdef"

// appendUnit writes one code unit that is not half of a pair as JSON.stringify
// does inside a string.
func appendUnit(dst []byte, u uint16) []byte {
	switch u {
	case '"', '\\':
		return append(dst, '\\', byte(u))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if u < ' ' || utf16.IsSurrogate(rune(u)) {
		return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
	}
	return utf8.AppendRune(dst, rune(u))
}
