package receipt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrLineTooLong is returned by [Reader.Next] for a line longer than
// [MaxDocument]. The rest of the line is skipped; reading can go on.
var ErrLineTooLong = fmt.Errorf("line is longer than %d bytes", MaxDocument)

// Writer writes receipts as JSON Lines: one envelope to a line. It does not
// buffer. A Writer has one user at a time.
type Writer struct{ w io.Writer }

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one envelope and a line end.
func (w *Writer) Write(envelope []byte) error {
	if len(envelope) == 0 || len(envelope) > MaxDocument {
		return fmt.Errorf("export receipt: envelope has %d bytes, must have 1 to %d", len(envelope), MaxDocument)
	}
	if bytes.IndexByte(envelope, '\n') >= 0 {
		return errors.New("export receipt: an envelope is one line, this one is not")
	}
	line := append(make([]byte, 0, len(envelope)+1), envelope...)
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("export receipt: %w", err)
	}
	return nil
}

// Reader reads JSON Lines with bounded memory. A Reader has one user at a time.
type Reader struct {
	r    *bufio.Reader
	line int
}

// NewReader returns a reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 64<<10)} }

// Line returns the number of the line that Next returned last, from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next line without its line end, which is one line feed and
// nothing else. The caller owns it. It returns io.EOF at the end, and
// [ErrLineTooLong] for a line that no receipt fits.
func (r *Reader) Next() ([]byte, error) {
	var line []byte
	long, started := false, false
	for {
		part, err := r.r.ReadSlice('\n')
		if len(part) > 0 {
			started = true
		}
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		if long = long || len(line)+len(part) > MaxDocument; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("read line %d: %w", r.line+1, err)
		case !ended && !started:
			return nil, io.EOF
		}
		r.line++
		if long {
			return nil, ErrLineTooLong
		}
		return line, nil
	}
}

// Tally counts the verdicts on a file of receipts. A file without receipts has
// no failures and proves nothing: look at Verified.
type Tally struct {
	Verified int `json:"verified"`
	Rejected int `json:"rejected"`
}

// VerifyAll verifies a file of receipts line by line and calls each for every
// line, with its number from 1. It stops at the first error of each, which it
// returns as it is, or of reading. Empty lines and lines too long to be a
// receipt are rejected like any other that is none. Memory is bounded by
// [MaxDocument], not by the file.
func VerifyAll(r io.Reader, opts VerifyOptions, each func(line int, v Verdict) error) (Tally, error) {
	var tally Tally
	lines := NewReader(r)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return tally, nil
		}
		var v Verdict
		switch {
		case errors.Is(err, ErrLineTooLong):
			v = newVerdict()
			v.set(CheckSchema, Failed, err.Error())
			v.settle()
		case err != nil:
			return tally, err
		default:
			v = Verify(line, opts)
		}
		if v.OK {
			tally.Verified++
		} else {
			tally.Rejected++
		}
		if each == nil {
			continue
		}
		if err := each(lines.Line(), v); err != nil {
			return tally, err
		}
	}
}
