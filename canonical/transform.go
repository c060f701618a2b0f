package canonical

// Transform returns the canonical form of one JSON value. A refused text gives
// a [*SyntaxError]. raw is not kept.
func Transform(raw []byte) ([]byte, error) {
	return AppendTransform(make([]byte, 0, len(raw)), raw)
}

// AppendTransform appends the canonical form of raw to dst. On an error dst
// comes back as it was. dst and raw must not overlap.
func AppendTransform(dst, raw []byte) ([]byte, error) {
	s := sink{raw: raw, buf: dst}
	if err := s.write(); err != nil {
		return dst, err
	}
	return s.buf, nil
}

// firstIndex is the index of an ordinary text, in one allocation.
type firstIndex struct {
	objects [8]object
	members [16]member
	pending [16]member
}

// write runs both passes.
func (s *sink) write() error {
	first := new(firstIndex)
	x := index{raw: s.raw, objects: first.objects[:0], members: first.members[:0], pending: first.pending[:0], twice: -1}
	if err := x.build(); err != nil {
		return err
	}
	if s.exact && x.twice >= 0 {
		return x.fail(x.twice, "an object has this name twice")
	}
	_, _, err := s.value(&x, skipSpace(s.raw, 0), 0)
	return err
}
