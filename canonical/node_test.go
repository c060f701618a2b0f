package canonical

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	nodeValues = flag.Int("node.values", 20_000, "how many generated texts TestNodeDifferential compares")
	nodeSeed   = flag.Uint64("node.seed", 1, "where their generation starts")
)

// requireNode returns the path of Node, or skips the test; in CI a missing peer
// is a failure.
func requireNode(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed, and CI must not go without it")
		}
		t.Skip("node is not installed")
	}
	return path
}

// TestNodeDifferential compares with JSON.parse and JSON.stringify, byte for
// byte and verdict for verdict. Run it with -node.values=1000000 after every
// change to the reader or the writer.
func TestNodeDifferential(t *testing.T) {
	node := requireNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--stack-size=4000", filepath.Join("testdata", "canonicalise.mjs"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	texts := make(chan []byte, 1<<16)
	go func() {
		defer close(texts)
		writeTexts(ctx, stdin, texts)
	}()
	accepted, refused, bytesIn := compareAnswers(t, bufio.NewReaderSize(stdout, 1<<20), texts, &stderr)
	cancel()
	for range texts { // the writer has ended when this is drained
	}
	_ = cmd.Wait() // its answers were counted; after a difference it was killed

	t.Logf("%d accepted and %d refused alike, %.1f MB, %.1f s", accepted, refused, float64(bytesIn)/1e6, time.Since(started).Seconds())
	if *nodeValues >= 1000 && !t.Failed() && (accepted < *nodeValues/2 || refused < *nodeValues/50) {
		t.Errorf("the texts are too one-sided to prove anything: %d accepted, %d refused", accepted, refused)
	}
}

// writeTexts sends the generated texts to Node and, in the same order, to the
// comparison.
func writeTexts(ctx context.Context, stdin io.WriteCloser, texts chan<- []byte) {
	defer stdin.Close()
	g := newGenerator(*nodeSeed)
	w := bufio.NewWriterSize(stdin, 1<<16)
	for range *nodeValues {
		text := g.text()
		select {
		case texts <- text:
		case <-ctx.Done():
			return
		}
		line := append(base64.StdEncoding.AppendEncode(nil, text), '\n')
		if _, err := w.Write(line); err != nil {
			return // Node is gone; the reader reports it
		}
	}
	_ = w.Flush()
}

func compareAnswers(t *testing.T, answers *bufio.Reader, texts <-chan []byte, stderr *bytes.Buffer) (accepted, refused, size int) {
	for range *nodeValues {
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Errorf("node stopped after %d answers: %v\n%s", accepted+refused, err, stderr)
			return accepted, refused, size
		}
		text := <-texts
		size += len(text)
		answer := bytes.TrimSuffix(line, []byte("\n"))
		ours, err := Transform(text)
		switch {
		case err != nil && string(answer) != "-":
			t.Errorf("refused here (%v), accepted by node\ntext %.2000q\nnode %.2000q", err, text, answer)
		case err == nil && string(answer) == "-":
			t.Errorf("accepted here, refused by node\ntext %.2000q\nours %.2000q", text, ours)
		case err == nil && string(answer[1:]) != string(ours):
			t.Errorf("forms differ\ntext %q\nours %q\nnode %q", text, ours, answer[1:])
		case err != nil:
			refused++
			continue
		default:
			accepted++
			if d, err := Sum(text); err != nil || d != SumBytes(ours) {
				t.Errorf("Sum and Transform differ for %q: %v", text, err)
			}
			continue
		}
		return accepted, refused, size // one difference is enough to look at
	}
	return accepted, refused, size
}
