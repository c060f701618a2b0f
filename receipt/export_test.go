package receipt_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/receipt"
)

func TestFileOfReceiptsIsVerifiedLineByLine(t *testing.T) {
	issuer := newIssuer(t)
	good := string(issue(t, issuer, sentMail(t)).Envelope)
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))}
	for _, c := range []struct {
		name, file string
		rejected   []int
		verified   int
	}{
		{"blank line between", good + "\n\n" + good + "\n", []int{2}, 2},
		{"carriage returns", good + "\r\n" + good + "\n", []int{1}, 1},
		{"empty file", "", nil, 0},
		{"last line without an end", good + "\n" + good, nil, 2},
		{"line beyond the bound", good + "\n" + strings.Repeat("x", 3*receipt.MaxDocument) + "\n" + good + "\n", []int{2}, 2},
		{"line beyond the bound, a receipt at its end", strings.Repeat("x", 17<<16) + good + "\n" + good + "\n", []int{1}, 1},
		{"line beyond the bound, unfinished", good + "\n" + strings.Repeat("x", receipt.MaxDocument+1), []int{2}, 1},
		{"one changed", good + "\n" + strings.Replace(good, "A", "B", 1) + "\n", []int{2}, 1},
		{"only a line end", "\n", []int{1}, 0},
	} {
		for _, slow := range []bool{false, true} {
			var r io.Reader = strings.NewReader(c.file)
			if slow {
				r = iotest.HalfReader(r)
			}
			var rejected []int
			tally, err := receipt.VerifyAll(r, opts, func(line int, v receipt.Verdict) error {
				if !v.OK {
					rejected = append(rejected, line)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := (receipt.Tally{Verified: c.verified, Rejected: len(c.rejected)}); tally != want || !slices.Equal(rejected, c.rejected) {
				t.Errorf("%s: %+v, rejected lines %v, want %+v, %v", c.name, tally, rejected, want, c.rejected)
			}
		}
	}
}

func TestVerifyAllStopsAtTheFirstErrorAndHandsItOn(t *testing.T) {
	good := string(issue(t, newIssuer(t), sentMail(t)).Envelope) + "\n"
	stop := errors.New("enough")
	calls := 0
	_, err := receipt.VerifyAll(strings.NewReader(good+good), receipt.VerifyOptions{}, func(int, receipt.Verdict) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	broken := errors.New("disk gone")
	_, err = receipt.VerifyAll(io.MultiReader(strings.NewReader(good[:10]), iotest.ErrReader(broken)), receipt.VerifyOptions{}, nil)
	if !errors.Is(err, broken) {
		t.Errorf("half a line was taken for a whole one: %v", err)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.SliceOfN(rapid.Byte().Filter(func(b byte) bool { return b != '\n' }), 1, 200)
		lines := rapid.SliceOf(line).Draw(rt, "lines")
		var file bytes.Buffer
		out := receipt.NewWriter(&file)
		for _, l := range lines {
			if err := out.Write(l); err != nil {
				rt.Fatal(err)
			}
		}
		in := receipt.NewReader(iotest.OneByteReader(&file))
		for i, want := range lines {
			got, err := in.Next()
			if err != nil || !bytes.Equal(got, want) || in.Line() != i+1 {
				rt.Fatalf("line %d: %q, %v, want %q", in.Line(), got, err, want)
			}
		}
		if _, err := in.Next(); !errors.Is(err, io.EOF) {
			rt.Fatalf("after the last line: %v", err)
		}
	})
}

func TestWriterRefusesWhatWouldNotBeOneLine(t *testing.T) {
	var file bytes.Buffer
	out := receipt.NewWriter(&file)
	for _, bad := range []string{"", "a\nb", strings.Repeat("x", receipt.MaxDocument+1)} {
		if err := out.Write([]byte(bad)); err == nil {
			t.Errorf("wrote %.20q", bad)
		}
	}
	if file.Len() != 0 {
		t.Error("something was written")
	}
}
