//go:build linux

package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk"
)

// behaviours are the hostile adapters, one mode each. Every send is free to break any rule.
var behaviours = map[string]behaviour{
	"dies before begin": {send: func(context.Context, *toy, channel.Attempt) (channel.Outcome, error) {
		os.Exit(3)
		return channel.Outcome{}, nil
	}},
	"dies after begin": {send: func(_ context.Context, _ *toy, a channel.Attempt) (channel.Outcome, error) {
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		os.Exit(3)
		return channel.Outcome{}, nil
	}},
	"dies in a goroutine": {send: func(ctx context.Context, _ *toy, _ channel.Attempt) (channel.Outcome, error) {
		go panic("a goroutine of the adapter's own panics")
		<-ctx.Done()
		return channel.Outcome{}, ctx.Err()
	}},
	"effect without begin, then dies": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		if strings.HasSuffix(a.Intent.EffectKey, ":fatal") {
			os.Exit(3)
		}
		return channel.Delivered(channel.Evidence{ID: "line"}), t.effect(a)
	}},
	"writes rubbish to the begin pipe, then dies": {send: func(context.Context, *toy, channel.Attempt) (channel.Outcome, error) {
		_, _ = unix.Write(4, []byte("rubbish"))
		os.Exit(3)
		return channel.Outcome{}, nil
	}},
	"stops itself, then begins": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		stopSelf()
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		return channel.Delivered(channel.Evidence{ID: "line"}), t.effect(a)
	}},
	"floods standard output": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		block := []byte(strings.Repeat("x", 1<<20))
		for range 10 {
			if _, err := unix.Write(1, block); err != nil {
				return channel.Outcome{}, channel.NotSent(err)
			}
		}
		for range 1000 {
			fmt.Println("printed by the adapter", strings.Repeat("y", 1000))
		}
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		return channel.Delivered(channel.Evidence{ID: "line"}), t.effect(a)
	}},
	"child holds its output, then dies": {send: func(_ context.Context, t *toy, _ channel.Attempt) (channel.Outcome, error) {
		child := exec.Command("/bin/sleep", "300")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		startChild(t, child)
		os.Exit(3)
		return channel.Outcome{}, nil
	}},
	"escaped child holds the begin pipe, then dies": {send: func(_ context.Context, t *toy, _ channel.Attempt) (channel.Outcome, error) {
		held, err := unix.Dup(4)
		if err != nil {
			return channel.Outcome{}, channel.NotSent(err)
		}
		child := exec.Command("/bin/sleep", "300")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(held), "held")}
		child.Stdout, child.Stderr = os.Stderr, os.Stderr
		startChild(t, child)
		os.Exit(3)
		return channel.Outcome{}, nil
	}},
	"ignores its context": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		if err := os.WriteFile(t.Path+".begun", nil, 0o600); err != nil {
			return channel.Outcome{}, err
		}
		time.Sleep(500 * time.Millisecond) // what it does instead of listening
		return channel.Delivered(channel.Evidence{ID: "line"}), t.effect(a)
	}},
	"answers a book": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		book := []byte(`"` + strings.Repeat("b", 40<<20) + `"`)
		return channel.Delivered(channel.Evidence{ID: "line", Detail: book}), t.effect(a)
	}},
	"answers bytes": {send: func(_ context.Context, _ *toy, a channel.Attempt) (channel.Outcome, error) {
		return channel.Delivered(channel.Evidence{ID: "\xff\xfe"}), a.Begin()
	}},
	"begins twice": {send: func(_ context.Context, t *toy, a channel.Attempt) (channel.Outcome, error) {
		if err := errors.Join(a.Begin(), t.effect(a), a.Begin()); err != nil {
			return channel.Outcome{}, channel.NotSent(err)
		}
		return channel.Delivered(channel.Evidence{ID: "line"}), nil
	}},
	"panics before begin": {send: func(context.Context, *toy, channel.Attempt) (channel.Outcome, error) {
		panic("before")
	}},
	"panics after begin": {send: func(_ context.Context, _ *toy, a channel.Attempt) (channel.Outcome, error) {
		if err := a.Begin(); err != nil {
			return channel.Outcome{}, err
		}
		panic("after")
	}},
	"tells its environment": {send: func(_ context.Context, _ *toy, a channel.Attempt) (channel.Outcome, error) {
		dir, _ := os.Getwd()
		entries, _ := os.ReadDir(dir)
		text := strconv.Quote(strings.Join(append(os.Environ(), "args="+strings.Join(os.Args, " "), fmt.Sprintf("files=%d", len(entries))), "\n"))
		return channel.Delivered(channel.Evidence{ID: "env", Detail: []byte(text)}), a.Begin()
	}},
	"tells its secrets": {send: func(ctx context.Context, t *toy, _ channel.Attempt) (channel.Outcome, error) {
		sdk.Logger(ctx).Info("logged in", "with", t.Password)
		fmt.Fprintln(os.Stderr, "printed:", t.Password)
		return channel.Outcome{}, channel.NotSent(fmt.Errorf("login with %s failed", t.Password))
	}},
	outlives: {main: func() int {
		// The kernel hangs up on an orphaned process group with a stopped member. Without this and without the
		// parent-death signal, only the lifeline is left.
		signal.Ignore(syscall.SIGHUP)
		return sdk.Main(toyAdapter("stops itself, then begins"))
	}},
	"ignores its shutdown": {main: func() int {
		sdk.Main(toyAdapter("good"))
		time.Sleep(5 * time.Minute)
		return 0
	}},
	"speaks another version": {main: func() int {
		fmt.Println("1|9|unix|/tmp/nowhere|grpc|")
		time.Sleep(5 * time.Minute)
		return 0
	}},
	"hangs at start": {main: func() int { time.Sleep(5 * time.Minute); return 0 }},
	"prints before the handshake": {main: func() int {
		fmt.Println("Hello from a library!")
		fmt.Println(strings.Repeat("-", 100_000))
		fmt.Print("no newline at the end of this")
		return sdk.Main(toyAdapter("good"))
	}},
	"panics at start": {main: func() int { panic("no home directory") }},
	"ends at start":   {main: func() int { return 7 }},
	"raw":             {main: func() int { return rawMain(true) }},
	deaf: {main: func() int {
		signal.Ignore(syscall.SIGHUP)
		return rawMain(false)
	}},
	"gets weaker": {main: func() int {
		a := toyAdapter("dies before begin")
		marker := os.Getenv("MARKER")
		if _, err := os.Stat(marker); err == nil {
			a.Sheet.Probe, a.Sheet.Begin = channel.ProbeNone, false
		}
		_ = os.WriteFile(marker, nil, 0o600)
		return sdk.Main(a)
	}},
}

const (
	outlives = "outlives its engine"
	deaf     = "is deaf to its lifeline"
)

// The parent-death signal belongs to the main thread, which only an init function is sure to run on.
func init() {
	if os.Getenv(modeVariable) != outlives {
		return
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		panic(err)
	}
}

func stopSelf() {
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	// The signal stops the whole process, but this thread may run on for a moment.
	for deadline := time.Now().Add(100 * time.Millisecond); time.Now().Before(deadline); {
	}
}

// startChild starts a child and leaves its number where the test finds it.
func startChild(t *toy, child *exec.Cmd) {
	if err := child.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(t.Path+".child", []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
}
