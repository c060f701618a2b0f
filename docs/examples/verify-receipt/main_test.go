package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is a receipt that was issued once and its public key.
const golden = "../../../receipt/testdata/golden"

func TestGenuineReceiptPassesAndAChangedOneFails(t *testing.T) {
	lines, err := os.ReadFile(golden + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(lines, []byte("\n"))
	var out bytes.Buffer
	for _, end := range []string{"", "\n"} {
		out.Reset()
		if err := verify(golden+".pub.pem", strings.NewReader(string(line)+end), &out); err != nil || !strings.HasPrefix(out.String(), "ok") {
			t.Errorf("%s, %v", out.String(), err)
		}
	}
	changed := bytes.Replace(line, []byte(`"sig":"`), []byte(`"sig":"A`), 1)
	if err := verify(golden+".pub.pem", bytes.NewReader(changed), &out); err == nil {
		t.Error("a changed receipt passed")
	}
	if err := verify(filepath.Join(t.TempDir(), "none.pem"), bytes.NewReader(line), &out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a key: %v", err)
	}
}
