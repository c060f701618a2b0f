package file

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileEmptiedWhileItIsReadIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	read := func() (*os.File, header, int64) {
		t.Helper()
		f, size, err := openForAppend(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		before, err := readHeader(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(f); err != nil {
			t.Fatal(err)
		}
		return f, before, size
	}
	f, before, size := read()
	if err := unchanged(f, before, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := unchanged(f, before, size); err == nil {
		t.Error("an emptied file counts as unchanged")
	}
	_, _, _ = read() // begins it again, as the next writer does
	if err := unchanged(f, before, size); err == nil {
		t.Error("a file that was emptied and begun again counts as unchanged")
	}
}
