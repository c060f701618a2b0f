//go:build linux

package host_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/host"
)

func attempt(notAfter time.Duration) channel.Attempt {
	return channel.Attempt{
		Intent: intent(), Number: 1, Tokens: []channel.Token{{Version: 1, Data: []byte("token")}},
		NotAfter: time.Now().Add(notAfter),
	}
}

// said names what a send answered.
func said(outcome channel.Outcome, err error) string {
	var ambiguous *channel.AmbiguousError
	switch {
	case err == nil:
		return outcome.Kind.String()
	case errors.As(err, &ambiguous):
		return "ambiguous"
	case channel.ProvenNotSent(err):
		return "not sent"
	}
	return "untyped"
}

func effects(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(content), "\n")
}

// await polls for a fact about another process, for which no event exists.
func await(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestAnswerOfAnAdapterThatBreaksRules(t *testing.T) {
	for _, row := range []struct {
		mode    string
		want    string
		effects int
	}{
		{"dies before begin", "not sent", 0},
		{"dies after begin", "ambiguous", 0},
		{"dies in a goroutine", "not sent", 0},
		{"writes rubbish to the begin pipe, then dies", "ambiguous", 0},
		{"floods standard output", "delivered", 1},
		{"child holds its output, then dies", "not sent", 0},
		{"escaped child holds the begin pipe, then dies", "ambiguous", 0},
		{"answers a book", "delivered", 1},
		{"answers bytes", "delivered", 0},
		{"begins twice", "ambiguous", 1},
		{"panics before begin", "not sent", 0},
		{"panics after begin", "ambiguous", 0},
	} {
		t.Run(row.mode, func(t *testing.T) {
			t.Parallel()
			a, path := launch(t, row.mode, nil)
			t.Cleanup(func() { killChild(path) })
			start := time.Now()
			outcome, err := a.Send(context.Background(), attempt(time.Minute))
			if got := said(outcome, err); got != row.want {
				t.Errorf("got %s (%+v, %v), want %s", got, outcome.Kind, err, row.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("the answer took %s", took)
			}
			if got := effects(t, path); got != row.effects {
				t.Errorf("%d effects, want %d", got, row.effects)
			}
			if row.mode == "answers bytes" && outcome.Evidence.ID != "\xff\xfe" {
				t.Errorf("evidence %q was changed on its way", outcome.Evidence.ID)
			}
			if row.mode == "answers a book" && outcome.Evidence.ID != "line" {
				t.Errorf("evidence %q: the id must get through", outcome.Evidence.ID)
			}
		})
	}
}

func TestStrayPrintsOfAnAdapterNeverReachStandardOutput(t *testing.T) {
	logger, logged := bufferedLogger()
	a, _ := launch(t, "floods standard output", func(o *host.Options) { o.Logger = logger })
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "delivered" {
		t.Fatalf("got %s", got)
	}
	await(t, "the prints are logged", func() bool { return strings.Contains(logged.String(), "printed by the adapter") })
	if strings.Contains(logged.String(), "wrote to standard output") {
		t.Error("standard output was written to")
	}
}

func killChild(path string) {
	if content, err := os.ReadFile(path + ".child"); err == nil {
		if pid, err := strconv.Atoi(string(content)); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func TestMissingRecordProvesNothingUnlessBeginIsProven(t *testing.T) {
	a, _ := launch(t, "dies before begin", func(o *host.Options) { o.BeginProven = false })
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "ambiguous" {
		t.Errorf("got %s, want ambiguous", got)
	}
}

func TestMissingRecordProvesNothingOnceTheAdapterLiedAboutBegin(t *testing.T) {
	a, _ := launch(t, "effect without begin, then dies", nil)
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "delivered" {
		t.Fatalf("first send: %s", got)
	}
	second := attempt(time.Minute)
	second.Intent.EffectKey += ":fatal"
	if got := said(a.Send(context.Background(), second)); got != "ambiguous" {
		t.Errorf("got %s, want ambiguous", got)
	}
}

func TestChildrenOfADeadAdapterAreKilled(t *testing.T) {
	a, path := launch(t, "child holds its output, then dies", nil)
	_, _ = a.Send(context.Background(), attempt(time.Minute))
	content, err := os.ReadFile(path + ".child")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the child is gone", func() bool { return !alive(pid) })
}

// alive reports whether the process runs; a zombie does not.
func alive(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return unix.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestCallsInBackoffAreNotSentAndTheAdapterComesBack(t *testing.T) {
	a, _ := launch(t, "dies before begin", nil)
	_, _ = a.Send(context.Background(), attempt(time.Minute))
	await(t, "the host rests", func() bool { return a.State() == host.Backoff })
	_, err := a.Send(context.Background(), attempt(time.Minute))
	var notReady *host.NotReadyError
	if !channel.ProvenNotSent(err) || !errors.As(err, &notReady) {
		t.Errorf("send: %v", err)
	}
	if _, err := a.IdempotencyToken(context.Background(), channel.TokenRequest{Version: 1}); !errors.As(err, &notReady) {
		t.Errorf("token: %v", err)
	}
	if finding, err := a.Probe(context.Background(), attempt(0)); finding.Kind != channel.FindingUnknown || !errors.As(err, &notReady) {
		t.Errorf("probe: %+v, %v", finding, err)
	}
	a.Reset()
	await(t, "the second generation is ready", func() bool { return a.State() == host.Ready && a.Generation() == 2 })
}

func TestContextThatIsIgnoredStillFiresAndIsAmbiguous(t *testing.T) {
	a, path := launch(t, "ignores its context", nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answer := make(chan string, 1)
	go func() { answer <- said(a.Send(ctx, attempt(time.Minute))) }()
	await(t, "the send is inside the adapter", func() bool { _, err := os.Stat(path + ".begun"); return err == nil })
	cancel()
	if got := <-answer; got != "ambiguous" {
		t.Errorf("got %s, want ambiguous", got)
	}
	await(t, "the effect shows", func() bool { return effects(t, path) == 1 })
}

func TestCloseWaitsForASendUnderWay(t *testing.T) {
	a, path := launch(t, "ignores its context", nil)
	answer := make(chan string, 1)
	go func() { answer <- said(a.Send(context.Background(), attempt(time.Minute))) }()
	await(t, "the send is inside the adapter", func() bool { _, err := os.Stat(path + ".begun"); return err == nil })
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "delivered" || effects(t, path) != 1 {
		t.Errorf("got %s with %d effects, want delivered with 1", got, effects(t, path))
	}
}

func TestCloseEndsAnAdapterThatIgnoresItsShutdown(t *testing.T) {
	a, _ := launch(t, "ignores its shutdown", func(o *host.Options) { o.GracePeriod = 300 * time.Millisecond })
	start := time.Now()
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("close took %s", took)
	}
}
