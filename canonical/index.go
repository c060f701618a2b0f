package canonical

import (
	"cmp"
	"math"
	"slices"
)

// MaxDepth is how many arrays and objects may be open at once. It bounds the
// stack of every program that reads the value after us.
const MaxDepth = 10_000

const tooDeep = "nested deeper than 10000 levels"

// maxInput is the longest JSON text, in bytes: offsets are kept in 32 bits, so
// that an object full of tiny members does not cost many times its size.
const maxInput = math.MaxUint32

// index is the result of the first of two passes over a text: it accepts or
// refuses the text and records where the members of each object are, in
// canonical order. The second pass ([sink.value]) writes. Two passes and no
// tree: what is large in practice (strings, arrays, numbers) costs no memory
// here, and no part of the text is copied more than once however it is nested.
type index struct {
	raw     []byte
	objects []object // in the order in which they open
	members []member // those of one object side by side
	pending []member // members of the objects that are still open
	// twice is the offset of the first name that its object has a second time, -1 where every name is the only one.
	twice int
}

type object struct {
	first, count uint32 // its members
	end          uint32 // offset after the closing brace
	next         uint32 // objects opened before end: the number of the next one
}

type member struct {
	name, nameEnd uint32 // the bytes between the quotes
	value         uint32 // offset of the value
	objects       uint32 // objects opened before the value
	escaped       bool   // the name has a backslash
}

// build reads the whole text.
func (x *index) build() error {
	if uint64(len(x.raw)) > maxInput {
		return &SyntaxError{Offset: maxInput, Path: "$", Msg: "text is longer than 4 GiB"}
	}
	i := x.space(0)
	i, err := x.value(i, 0)
	if err != nil {
		return err
	}
	if i = x.space(i); i < len(x.raw) {
		return x.fail(i, "unexpected text after the value")
	}
	return nil
}

func (x *index) fail(i int, msg string) error {
	return &SyntaxError{Offset: int64(i), Path: pathAt(x.raw, i), Msg: msg}
}

// failAt is fail for a place where another byte was expected.
func (x *index) failAt(i int, expected string) error {
	if i >= len(x.raw) {
		return x.fail(len(x.raw), "unexpected end of text, expected "+expected)
	}
	return x.fail(i, "expected "+expected)
}

func (x *index) space(i int) int { return skipSpace(x.raw, i) }

func skipSpace(raw []byte, i int) int {
	for i < len(raw) {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// value reads the value at i, inside depth open containers, and returns the
// offset after it.
func (x *index) value(i, depth int) (int, error) {
	if i >= len(x.raw) {
		return i, x.failAt(i, "a value")
	}
	switch c := x.raw[i]; {
	case c == '"':
		end, _, err := x.str(i)
		return end, err
	case c == '{':
		return x.object(i, depth+1)
	case c == '[':
		return x.array(i, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		end, ok := scanNumber(x.raw, i)
		if !ok {
			return end, x.failAt(end, "a digit")
		}
		return end, nil
	case c == 't':
		return x.literal(i, "true")
	case c == 'f':
		return x.literal(i, "false")
	case c == 'n':
		return x.literal(i, "null")
	default:
		return i, x.failAt(i, "a value")
	}
}

func (x *index) literal(i int, word string) (int, error) {
	end := i + len(word)
	if end > len(x.raw) || string(x.raw[i:end]) != word {
		return i, x.failAt(i, "a value")
	}
	return end, nil
}

func (x *index) array(i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, x.fail(i, tooDeep)
	}
	i = x.space(i + 1)
	if i < len(x.raw) && x.raw[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = x.value(i, depth); err != nil {
			return i, err
		}
		i = x.space(i)
		if i < len(x.raw) && x.raw[i] == ',' {
			i = x.space(i + 1)
			continue
		}
		if i < len(x.raw) && x.raw[i] == ']' {
			return i + 1, nil
		}
		return i, x.failAt(i, "a comma or ]")
	}
}

func (x *index) object(i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, x.fail(i, tooDeep)
	}
	self, base := len(x.objects), len(x.pending)
	x.objects = append(x.objects, object{})
	i = x.space(i + 1)
	if i < len(x.raw) && x.raw[i] == '}' {
		x.close(self, base, i+1)
		return i + 1, nil
	}
	for {
		var err error
		if i, err = x.member(i, depth); err != nil {
			return i, err
		}
		i = x.space(i)
		if i < len(x.raw) && x.raw[i] == ',' {
			i = x.space(i + 1)
			continue
		}
		if i < len(x.raw) && x.raw[i] == '}' {
			x.close(self, base, i+1)
			return i + 1, nil
		}
		return i, x.failAt(i, "a comma or }")
	}
}

func (x *index) member(i, depth int) (int, error) {
	if i >= len(x.raw) || x.raw[i] != '"' {
		return i, x.failAt(i, "a member name in double quotes")
	}
	end, escaped, err := x.str(i)
	if err != nil {
		return end, err
	}
	m := member{name: uint32(i + 1), nameEnd: uint32(end - 1), escaped: escaped}
	i = x.space(end)
	if i >= len(x.raw) || x.raw[i] != ':' {
		return i, x.failAt(i, "a colon")
	}
	i = x.space(i + 1)
	m.value, m.objects = uint32(i), uint32(len(x.objects))
	x.pending = append(x.pending, m)
	return x.value(i, depth)
}

// close moves the members of object number self to their final place, sorted,
// the last one of each name.
func (x *index) close(self, base, end int) {
	ms := x.pending[base:]
	for i := 1; i < len(ms); i++ {
		if x.compare(&ms[i-1], &ms[i]) >= 0 {
			ms = x.sort(ms)
			break
		}
	}
	first := len(x.members)
	x.members = append(x.members, ms...)
	x.pending = x.pending[:base]
	x.objects[self] = object{
		first: uint32(first), count: uint32(len(ms)),
		end: uint32(end), next: uint32(len(x.objects)),
	}
}

func (x *index) sort(ms []member) []member {
	slices.SortFunc(ms, func(a, b member) int {
		if c := x.compare(&a, &b); c != 0 {
			return c
		}
		return cmp.Compare(a.name, b.name) // place in the text: the last one wins
	})
	kept := 0
	for i := range ms {
		if i+1 < len(ms) && x.compare(&ms[i], &ms[i+1]) == 0 {
			if at := int(ms[i+1].name) - 1; x.twice < 0 || at < x.twice {
				x.twice = at
			}
			continue
		}
		ms[kept] = ms[i]
		kept++
	}
	return ms[:kept]
}

func (x *index) compare(a, b *member) int {
	an, bn := x.raw[a.name:a.nameEnd], x.raw[b.name:b.nameEnd]
	if a.escaped || b.escaped {
		return compareEscaped(an, bn)
	}
	return compareUTF16(an, bn)
}
