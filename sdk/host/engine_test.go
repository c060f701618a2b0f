//go:build linux

package host_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/host"
)

// engineVariable makes the test binary an engine that sends once and waits to be killed.
const engineVariable = "PAWL_TEST_ENGINE"

// runEngine launches the adapter in the given directory, prints its process number and sends.
func runEngine(mode string) int {
	program, _ := os.Executable()
	dir := os.Getenv("ENGINE_DIR")
	a, err := host.Launch(context.Background(), host.Options{
		Name: "toy/test", Path: program, Config: fmt.Appendf(nil, `{"path": %q}`, dir+"/effects"),
		Env: map[string]string{modeVariable: mode}, Dir: dir + "/h", BeginProven: true,
		StartTimeout: patience,
	})
	if err != nil {
		fmt.Println("launch:", err)
		return 1
	}
	fmt.Println(childOf(os.Getpid()))
	_, err = a.Send(context.Background(), channel.Attempt{Intent: intent(), Number: 1, NotAfter: time.Now().Add(time.Minute)})
	fmt.Println("sent:", err)
	return 0
}

// childOf returns the only child of the process.
func childOf(pid int) int {
	for _, child := range children(pid) {
		return child
	}
	return 0
}

func children(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		content, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

func state(pid int) string {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return rest[:1]
}

// An adapter that is stopped right before Begin when its engine is killed must not fire when it goes on.
func TestEngineKilledMeansAdapterGoneAndNothingFired(t *testing.T) {
	for _, mode := range []string{outlives, "stops itself, then begins"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			engine, adapter, dir := startEngine(t, mode)
			await(t, "the adapter stopped itself in Send", func() bool { return state(adapter) == "T" })
			if err := engine.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = engine.Wait()
			// The kernel continues a stopped orphan only if it had stopped entirely; so this test does.
			_ = unix.Kill(adapter, unix.SIGCONT)
			await(t, "the adapter is gone", func() bool { return !alive(adapter) })
			if n := effects(t, dir+"/effects"); n != 0 {
				t.Errorf("%d effects after the engine's death", n)
			}
			testNextEngineSweeps(t, dir)
		})
	}
}

// startEngine starts an engine of its own process and returns it with the number of its adapter's process.
func startEngine(t *testing.T, mode string) (engine *exec.Cmd, adapter int, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	engine = exec.Command(program)
	engine.Env = append(os.Environ(), engineVariable+"="+mode, "ENGINE_DIR="+dir)
	out, err := engine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	adapter, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || convErr != nil || adapter == 0 {
		t.Fatalf("the engine says %q, %v", line, err)
	}
	t.Cleanup(func() { _ = unix.Kill(adapter, unix.SIGKILL) })
	return engine, adapter, dir
}

func TestKernelEndsAnAdapterThatIsDeafToItsLifeline(t *testing.T) {
	engine, adapter, _ := startEngine(t, deaf)
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = engine.Wait()
	await(t, "the adapter is gone", func() bool { return !alive(adapter) })
}

// testNextEngineSweeps checks that an engine removes what one that was killed left behind.
func testNextEngineSweeps(t *testing.T, dir string) {
	t.Helper()
	pattern := filepath.Join(dir, "h", "run-*")
	old, _ := filepath.Glob(pattern)
	if len(old) != 1 {
		t.Fatalf("the killed engine left %v: nothing to sweep is no test", old)
	}
	launch(t, "good", func(o *host.Options) { o.Dir = filepath.Join(dir, "h") })
	now, _ := filepath.Glob(pattern)
	if len(now) != 1 || now[0] == old[0] {
		t.Errorf("there is %v, the old one is %s", now, old[0])
	}
}

func TestAdapterStoppedBeforeBeginRefusesAfterTheNotAfter(t *testing.T) {
	a, path := launch(t, "stops itself, then begins", nil)
	adapter := 0
	for _, child := range children(os.Getpid()) {
		if content, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/environ"); strings.Contains(string(content), path[:strings.LastIndexByte(path, '/')]) {
			adapter = child
		}
	}
	if adapter == 0 {
		t.Fatal("the adapter's process was not found")
	}
	const life = 300 * time.Millisecond
	first := attempt(life)
	answer := make(chan string, 1)
	go func() { answer <- said(a.Send(context.Background(), first)) }()
	await(t, "the adapter stopped itself in Send", func() bool { return state(adapter) == "T" })
	time.Sleep(time.Until(first.NotAfter))
	if err := unix.Kill(adapter, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "not sent" || effects(t, path) != 0 {
		t.Errorf("got %s with %d effects, want not sent with none", got, effects(t, path))
	}
	// Continued in time, the same adapter fires: the refusal was the clock's.
	go func() { answer <- said(a.Send(context.Background(), attempt(time.Minute))) }()
	await(t, "the adapter stopped itself again", func() bool { return state(adapter) == "T" })
	if err := unix.Kill(adapter, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "delivered" || effects(t, path) != 1 {
		t.Errorf("got %s with %d effects, want delivered with 1", got, effects(t, path))
	}
}

func TestStoppedAdapterIsFoundByItsHealthAndReplaced(t *testing.T) {
	a, _ := launch(t, "stops itself, then begins", func(o *host.Options) {
		o.HealthInterval, o.HealthTimeout = 50*time.Millisecond, time.Second
	})
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "not sent" {
		t.Errorf("got %s, want not sent: the adapter was killed before Begin", got)
	}
	await(t, "the host rests", func() bool { return a.State() == host.Backoff })
	a.Reset()
	await(t, "the next generation is ready", func() bool { return a.State() == host.Ready && a.Generation() > 1 })
	if err := a.Health(context.Background()); err != nil {
		t.Error(err)
	}
}
