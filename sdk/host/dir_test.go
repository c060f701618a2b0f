package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSweepRemovesWhatNobodyHoldsAndNothingElse(t *testing.T) {
	base := t.TempDir()
	held, err := newLaunchDir(base)
	if err != nil {
		t.Fatal(err)
	}
	left, err := newLaunchDir(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.lock.Close(); err != nil { // what the death of its engine does
		t.Fatal(err)
	}
	beingMade := filepath.Join(base, dirPrefix+"1")
	if err := os.Mkdir(beingMade, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sweep(base); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{held.path: true, left.path: false, beingMade: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", filepath.Base(path), err, want)
		}
	}
	if err := held.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(held.path); !os.IsNotExist(err) {
		t.Errorf("a removed directory is still there: %v", err)
	}
}
