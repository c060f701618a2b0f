package command

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// engines is the key of the engines that a script has started.
type engines struct{}

// engineProcess is "pawl engine" as a process of its own. Its log can be waited for.
type engineProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // the log has ended

	mu   sync.Mutex
	log  strings.Builder
	grew chan struct{} // closed when the log grows
}

func (e *engineProcess) read(lines *bufio.Scanner) {
	defer close(e.done)
	for lines.Scan() {
		e.mu.Lock()
		e.log.WriteString(lines.Text() + "\n")
		close(e.grew)
		e.grew = make(chan struct{})
		e.mu.Unlock()
	}
}

func (e *engineProcess) text() (string, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String(), e.grew
}

// says waits until the log holds a text. False: it ended, or it took too long.
func (e *engineProcess) says(text string) bool {
	late := time.After(patience)
	for {
		log, grew := e.text()
		if strings.Contains(log, text) {
			return true
		}
		select {
		case <-grew:
		case <-e.done:
			log, _ = e.text()
			return strings.Contains(log, text)
		case <-late:
			return false
		}
	}
}

// engineStart is: engine-start NAME args… It runs "pawl engine args…" and returns once it has started.
func engineStart(ts *testscript.TestScript, _ bool, args []string) {
	startProcess(ts, args[0], "engine.started", append([]string{"engine"}, args[1:]...)...)
}

// serveStart is: serve-start NAME VARIABLE args… It runs "pawl serve args…", returns once it serves, and puts its URL into a variable.
func serveStart(ts *testscript.TestScript, _ bool, args []string) {
	e := startProcess(ts, args[0], "engine.started", append([]string{"serve"}, args[2:]...)...)
	if !e.says("the API is at ") {
		ts.Fatalf("it does not say where it serves")
	}
	log, _ := e.text()
	_, rest, _ := strings.Cut(log, "the API is at ")
	url, _, _ := strings.Cut(rest, "/v1,")
	ts.Setenv(args[1], url)
}

// startProcess runs pawl until its log says that it has started.
func startProcess(ts *testscript.TestScript, name, started string, args ...string) *engineProcess {
	program, err := exec.LookPath("pawl")
	ts.Check(err)
	e := &engineProcess{
		cmd: exec.Command(program, args...), done: make(chan struct{}), grew: make(chan struct{}),
	}
	e.cmd.Dir = ts.MkAbs(".")
	e.cmd.Env = append(os.Environ(), allowedVariable+"=yes", otherVariable+"=yes")
	pipe, err := e.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(e.cmd.Start())
	go e.read(bufio.NewScanner(pipe))
	ts.Value(engines{}).(map[string]*engineProcess)[name] = e
	if !e.says(started) {
		log, _ := e.text()
		ts.Fatalf("pawl %s did not start:\n%s", args[0], log)
	}
	return e
}

// engineSignal is: engine-signal NAME TEXT. It sends SIGTERM and waits until the log holds the text.
func engineSignal(ts *testscript.TestScript, _ bool, args []string) {
	e := ts.Value(engines{}).(map[string]*engineProcess)[args[0]]
	ts.Check(e.cmd.Process.Signal(syscall.SIGTERM))
	if !e.says(args[1]) {
		log, _ := e.text()
		ts.Fatalf("the engine does not say %q:\n%s", args[1], log)
	}
}

// engineStop is: engine-stop NAME [CODE]. It sends SIGTERM, wants an exit code (0), and leaves the log in NAME.log.
func engineStop(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.Value(engines{}).(map[string]*engineProcess)
	e, want := running[args[0]], 0
	if len(args) > 1 {
		var err error
		want, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	ts.Check(e.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-e.done:
	case <-time.After(patience):
		ts.Fatalf("the engine did not stop in time") // and is killed at the end of the script
	}
	delete(running, args[0])
	_ = e.cmd.Wait() // its exit code is looked at below
	log, _ := e.text()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), []byte(log), 0o600))
	if got := e.cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("the engine's exit code is %d, want %d:\n%s", got, want, log)
	}
}

func stopAll(running map[string]*engineProcess) {
	for _, e := range running {
		_ = e.cmd.Process.Kill()
		<-e.done
		_ = e.cmd.Wait()
	}
}
