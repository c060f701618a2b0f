package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPinnedProgramIsStartedFromItsPrivateCopy(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	content := []byte("the program")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	pin := hex.EncodeToString(sum[:])
	kept := filepath.Join(dir, "bin", pin)
	for _, when := range []string{"first", "again", "after the copy was changed"} {
		if when == "after the copy was changed" {
			if err := os.Chmod(kept, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(kept, []byte("something else"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		got, err := prepareBinary(program, pin, dir)
		if err != nil || got.path != kept || got.sha256 != pin {
			t.Fatalf("%s: %+v, %v", when, got, err)
		}
		info, err := os.Stat(kept)
		if err != nil || info.Mode().Perm() != 0o500 {
			t.Errorf("%s: mode %v, %v", when, info.Mode(), err)
		}
		if copied, _ := os.ReadFile(kept); string(copied) != string(content) {
			t.Errorf("%s: the copy holds %q", when, copied)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "bin", "copy-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(program, []byte("a new program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareBinary(program, pin, dir); !errors.Is(err, ErrWrongChecksum) {
		t.Errorf("changed program: %v", err)
	}
	if got, err := prepareBinary(program, "", dir); err != nil || got.path != program {
		t.Errorf("not pinned: %+v, %v", got, err)
	}
}
