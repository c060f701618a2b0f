package canonical

// smallIndex is how many members and objects a text may have before the index
// leaves the stack.
const smallIndex = 32

// Transform returns the canonical form of one JSON value. A refused text gives
// a [*SyntaxError]. raw is not kept.
func Transform(raw []byte) ([]byte, error) {
	return AppendTransform(make([]byte, 0, len(raw)), raw)
}

// AppendTransform appends the canonical form of raw to dst. On an error dst
// comes back as it was. dst and raw must not overlap.
func AppendTransform(dst, raw []byte) ([]byte, error) {
	s := sink{buf: dst}
	if err := s.write(raw); err != nil {
		return dst, err
	}
	return s.buf, nil
}

// write runs both passes.
func (s *sink) write(raw []byte) error {
	var (
		objects          [smallIndex]object
		members, pending [smallIndex]member
	)
	x := index{raw: raw, objects: objects[:0], members: members[:0], pending: pending[:0]}
	if err := x.build(); err != nil {
		return err
	}
	_, _, err := s.value(&x, skipSpace(raw, 0), 0)
	return err
}
