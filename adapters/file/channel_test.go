package file_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/adapters/file"
	"github.com/pawlworks/pawl/core/channel"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("FILE_TEST_WRITER"); path != "" {
		os.Exit(writer(path))
	}
	os.Exit(m.Run())
}

// writer is another process: it sends the intents that its environment names, and can die at a point.
func writer(path string) int {
	c, err := file.New(context.Background(), configOf(path))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for key := range strings.SplitSeq(os.Getenv("FILE_TEST_KEYS"), ",") {
		a, err := attemptOf(c, key)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if os.Getenv("FILE_TEST_DIE") == "begin" {
			a.BeginFunc = func() error {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		if os.Getenv("FILE_TEST_STOP") == "begin" {
			a.BeginFunc = func() error {
				fmt.Println("stopping")
				return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
		}
		if outcome, err := c.Send(context.Background(), a); err != nil || outcome.Kind != channel.OutcomeDelivered {
			fmt.Fprintln(os.Stderr, outcome, err)
			return 1
		}
	}
	return 0
}

func configOf(path string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"path": path})
	return b
}

func intentOf(key string) channel.Intent {
	return channel.Intent{
		RunID: "8c1f7a2e-1111-8abc-8def-000000000001", EffectKey: "file:" + key, Kind: "file", Channel: "file/test",
		Payload: fmt.Appendf(nil, "{\n  \"note\": %q\n}", key), PayloadDigest: "digest of " + key, CreatedAt: time.Now(),
	}
}

func attemptOf(c channel.Channel, key string) (channel.Attempt, error) {
	i := intentOf(key)
	token, err := c.IdempotencyToken(context.Background(), channel.TokenRequest{Intent: i, Version: 1})
	if err != nil {
		return channel.Attempt{}, err
	}
	return channel.Attempt{Intent: i, Number: 1, Tokens: []channel.Token{token}, FirstSentAt: time.Now(), BeginFunc: func() error { return nil }}, nil
}

func open(t testing.TB, path string) channel.Channel {
	t.Helper()
	c, err := file.New(t.Context(), configOf(path))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func attempt(t testing.TB, c channel.Channel, key string) channel.Attempt {
	t.Helper()
	a, err := attemptOf(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// lines returns the effects in the file, by key, and fails on anything that is not a line of the format.
func lines(t testing.TB, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys := map[string]int{}
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 4<<20)
	for n := 0; scanner.Scan(); n++ {
		var l struct {
			Pawl      string `json:"pawl"`
			EffectKey string `json:"effect_key"`
			Payload   struct{ Note string }
		}
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			t.Fatalf("line %d: %v: %q", n+1, err, scanner.Bytes())
		}
		if n == 0 {
			if l.Pawl != "effects" {
				t.Fatalf("the first line is %q", scanner.Bytes())
			}
			continue
		}
		if "file:"+l.Payload.Note != l.EffectKey {
			t.Fatalf("line %d mixes two effects: %q", n+1, scanner.Bytes())
		}
		keys[strings.TrimPrefix(l.EffectKey, "file:")]++
	}
	return keys
}

func wantFinding(t testing.TB, c channel.Channel, a channel.Attempt, want channel.FindingKind) channel.Finding {
	t.Helper()
	finding, err := c.Probe(t.Context(), a)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	if finding.Kind != want {
		t.Fatalf("the probe says %v (%s), want %v", finding.Kind, finding.Reason, want)
	}
	return finding
}

func TestASentLineIsFoundWithTheEvidenceOfItsSend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	a := attempt(t, c, "one")
	wantFinding(t, c, a, channel.FindingAbsentForGood)
	outcome, err := c.Send(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	finding := wantFinding(t, c, a, channel.FindingSent)
	if finding.Match != channel.MatchExact || finding.Evidence.ID != outcome.Evidence.ID || !bytes.Equal(finding.Evidence.Detail, outcome.Evidence.Detail) {
		t.Fatalf("the probe found %+v, the send gave %+v", finding.Evidence, outcome.Evidence)
	}
	wantFinding(t, c, attempt(t, c, "two"), channel.FindingAbsentForGood)
}

// A flush that failed leaves the line readable and the kernel believing that it is on the disk: another flush does nothing. Only
// what is written again is flushed again.
func TestAProbeWritesTheLineAgainBeforeItCallsItSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	c := open(t, path)
	for _, key := range []string{"first", "asked", "last"} {
		if _, err := c.Send(t.Context(), attempt(t, c, key)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	wasWritten := func(key string, want channel.FindingKind) bool {
		t.Helper()
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
		wantFinding(t, c, attempt(t, c, key), want)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().After(past.Add(time.Minute))
	}
	if !wasWritten("asked", channel.FindingSent) {
		t.Error("the line was called sent and was not written again")
	}
	if wasWritten("other", channel.FindingAbsentForGood) {
		t.Error("a probe that finds nothing wrote")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed (%v):\n%s\n%s", err, before, after)
	}
}

func TestARefusedBeginWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	a := attempt(t, c, "one")
	refusal := channel.NotSent(errors.New("too late"))
	a.BeginFunc = func() error { return refusal }
	if _, err := c.Send(t.Context(), a); !errors.Is(err, refusal) {
		t.Fatalf("Send returned %v, want the refusal itself", err)
	}
	if got := lines(t, path); len(got) != 0 {
		t.Fatalf("the file has %v", got)
	}
}

func TestBeginStandsBeforeTheFirstByteOfTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	a := attempt(t, c, "one")
	var before []byte
	a.BeginFunc = func() (err error) {
		before, err = os.ReadFile(path)
		return err
	}
	if _, err := c.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(before, []byte("file:one")) {
		t.Fatal("the line was there when Begin was called")
	}
}

func TestManyProcessesAppendWithoutMixingLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	const processes, each = 4, 25
	var group sync.WaitGroup
	for p := range processes {
		group.Go(func() {
			keys := make([]string, each)
			for i := range keys {
				keys[i] = fmt.Sprintf("p%d-%d", p, i)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "FILE_TEST_WRITER="+path, "FILE_TEST_KEYS="+strings.Join(keys, ","))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v: %s", p, err, out)
			}
		})
	}
	group.Wait()
	got := lines(t, path)
	if len(got) != processes*each {
		t.Fatalf("%d effects, want %d", len(got), processes*each)
	}
	for key, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", key, n)
		}
	}
}

func TestAWriterKilledAfterBeginIsProvenAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FILE_TEST_WRITER="+path, "FILE_TEST_KEYS=one", "FILE_TEST_DIE=begin")
	if err := cmd.Run(); err == nil {
		t.Fatal("the writer did not die")
	}
	wantFinding(t, c, attempt(t, c, "one"), channel.FindingAbsentForGood)
}

func TestAStoppedWriterAfterBeginIsNeverCalledAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FILE_TEST_WRITER="+path, "FILE_TEST_KEYS=one", "FILE_TEST_STOP=begin")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	a := attempt(t, c, "one")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// It is about to write: whatever the clock says, nothing may be concluded.
	if finding, err := c.Probe(ctx, a); err == nil {
		t.Fatalf("the probe says %v while a writer stands between Begin and its write", finding.Kind)
	}
	// A signal that arrives before the stop does nothing, so it is sent until the writer ends.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case err := <-ended:
			tick.Stop()
			if err != nil {
				t.Fatal(err)
			}
			wantFinding(t, c, a, channel.FindingSent)
			return
		case <-tick.C:
			_ = cmd.Process.Signal(unix.SIGCONT)
		}
	}
}

func TestATornLineIsNoEffectAndNeverBecomesOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	a := attempt(t, c, "one")
	if _, err := c.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := bytes.IndexByte(whole, '\n') + 1
	for cut := begin; cut < len(whole); cut++ { // also right before the line feed
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		wantFinding(t, c, a, channel.FindingAbsentForGood)
		if _, err := c.Send(t.Context(), attempt(t, c, "two")); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, path); got["one"] != 0 || got["two"] != 1 {
			t.Fatalf("cut at %d: the file has %v", cut, got)
		}
		wantFinding(t, c, a, channel.FindingAbsentForGood)
	}
}

func TestAnExchangedFileIsNoProofOfAbsence(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "out")
	c := open(t, path)
	a := attempt(t, c, "one")
	if _, err := c.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, c, a, channel.FindingUnknown)
	if _, err := c.Send(t.Context(), attempt(t, c, "two")); err != nil { // makes a new file
		t.Fatal(err)
	}
	wantFinding(t, c, a, channel.FindingUnknown)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if finding, err := c.Probe(t.Context(), a); err == nil {
		t.Fatalf("the probe of an emptied file says %v", finding.Kind)
	}
}

func TestTheSameTokenWithAnotherPayloadIsNotTakenForOurs(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "out"))
	a := attempt(t, c, "one")
	if _, err := c.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	a.Intent.PayloadDigest = "another"
	wantFinding(t, c, a, channel.FindingUnknown)
}

func TestAFullDiskIsNotSent(t *testing.T) {
	// A limit on the size of files stands in for a full disk: the write ends within the line.
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	a := attempt(t, c, strings.Repeat("x", 64<<10))
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 8 << 10, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Send(t.Context(), a)
	if restored := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); restored != nil {
		t.Fatal(restored)
	}
	if !channel.ProvenNotSent(err) {
		t.Fatalf("got %v, want not sent", err)
	}
	wantFinding(t, c, a, channel.FindingAbsentForGood)
	if _, err := c.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, c, a, channel.FindingSent)
}

func TestPayloadsOfAnyBytesStayOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := open(t, path)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
		if rapid.Bool().Draw(t, "json") {
			payload, _ = json.Marshal(map[string]string{"a": rapid.String().Draw(t, "text")})
		}
		i := intentOf(fmt.Sprint("any-", n))
		i.Payload = payload
		token, err := c.IdempotencyToken(context.Background(), channel.TokenRequest{Intent: i, Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a := channel.Attempt{Intent: i, Tokens: []channel.Token{token}, BeginFunc: func() error { return nil }}
		outcome, err := c.Send(context.Background(), a)
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if added := bytes.TrimPrefix(after, before); bytes.Count(added, []byte("\n")) != 1 || !json.Valid(added) {
			t.Fatalf("the send added %q", added)
		}
		finding, err := c.Probe(context.Background(), a)
		if err != nil || finding.Kind != channel.FindingSent || finding.Evidence.ID != outcome.Evidence.ID {
			t.Fatalf("probe: %+v, %v", finding, err)
		}
	})
}

func TestConfigurationNamesTheFaultAndTheFix(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, []byte("somebody's notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{}`:                             "path is missing",
		`{"path":"relative"}`:            "absolute",
		`{"path":"/tmp/x","pth":"y"}`:    `"pth"`,
		`{"path":"/nonexistent/a/b/c"}`:  "path",
		`{"path":"` + foreign + `"}`:     "first line",
		`{"path":"` + t.TempDir() + `"}`: "director",
	} {
		_, err := file.New(t.Context(), json.RawMessage(config))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want something about %s", config, err, want)
		}
	}
	if got, err := os.ReadFile(foreign); err != nil || string(got) != "somebody's notes\n" {
		t.Fatalf("the foreign file now has %q (%v)", got, err)
	}
}

func BenchmarkProbeOfALargeFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "out")
	c := open(b, path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for range 200_000 {
		fmt.Fprintf(w, `{"token":"%064d","run_id":"r","payload":"%0400d"}`+"\n", 0, 0)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
	a, err := attemptOf(c, "one")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if finding, err := c.Probe(context.Background(), a); err != nil || finding.Kind != channel.FindingAbsentForGood {
			b.Fatal(finding, err)
		}
	}
}
