package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// engine is one engine as an operator runs it: a process, started again at will.
type engine struct {
	s       *scene
	name    string
	verb    string // engine or serve
	api     string // where a service listens
	config  string
	log     string
	pid     int
	home    string        // where a service runs that was given no configuration
	environ []string      // besides the test's own
	code    int           // after exited
	exited  chan struct{} // nil: never started
}

// engine writes the configuration of an engine and starts it; it returns when the engine beats. url "" is the scene's own.
func (s *scene) engine(name string, change func(policy, times map[string]any)) *engine {
	s.t.Helper()
	e := s.newEngine(name, s.url, change)
	e.start()
	e.awaitUp()
	return e
}

func (s *scene) newEngine(name, url string, change func(policy, times map[string]any)) *engine {
	s.t.Helper()
	e := &engine{s: s, name: name, verb: "engine", config: s.writeConfig(name, url, change), log: filepath.Join(s.dir, name, "log")}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines = append(s.engines, e)
	return e
}

// start starts the process. It ends with the test binary.
func (e *engine) start() {
	e.s.t.Helper()
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.s.t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(e.s.program, e.verb, "--config", e.config)
	c.Dir, c.Stdout, c.Stderr, c.Env = e.s.dir, log, log, append(os.Environ(), e.environ...)
	if e.config == "" {
		c.Args, c.Dir = []string{e.s.program, e.verb}, e.home
	}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error, 1)
	// The kernel sends the death signal when the thread that forked ends: this one is kept.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err != nil {
			return
		}
		_ = c.Wait() // how it ended is in its exit code
		e.code = c.ProcessState.ExitCode()
		close(exited)
	}()
	if err := <-started; err != nil {
		e.s.t.Fatalf("start %s: %v", e.name, err)
	}
	e.pid, e.exited = c.Process.Pid, exited
}

// awaitUp waits for a heartbeat of this process.
func (e *engine) awaitUp() {
	e.s.t.Helper()
	e.s.eventually(e.name+" beats", func() error {
		if !e.running() {
			e.s.t.Fatalf("%s ended with code %d", e.name, e.code)
		}
		all, err := e.s.ledger.Instances(e.s.ctx)
		if err != nil {
			return err
		}
		for _, i := range all {
			if i.Process == e.pid && i.Age < 10*time.Second && i.StoppedAt.IsZero() {
				return nil
			}
		}
		return fmt.Errorf("process %d is none of %d instances", e.pid, len(all))
	})
}

func (e *engine) running() bool {
	if e.exited == nil {
		return false
	}
	select {
	case <-e.exited:
		return false
	default:
		return true
	}
}

func (e *engine) signal(how syscall.Signal) {
	e.s.t.Helper()
	if err := syscall.Kill(e.pid, how); err != nil {
		e.s.t.Fatalf("signal %s: %v", e.name, err)
	}
}

// awaitExit waits for the end of the process and returns its exit code.
func (e *engine) awaitExit() int {
	e.s.t.Helper()
	select {
	case <-e.exited:
		return e.code
	case <-time.After(patience):
		e.s.t.Fatalf("%s does not end", e.name)
		return 0
	}
}

// kill kills the engine and, if wanted, its adapters, without asking.
func (e *engine) kill(adaptersToo bool) {
	if !e.running() {
		return
	}
	var adapters []int
	if adaptersToo {
		adapters = childrenOf(e.pid)
	}
	_ = syscall.Kill(e.pid, syscall.SIGKILL)
	for _, pid := range adapters {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-e.exited
}

// stopInOrder asks the engine to stop, as an operator would, and requires it to do so.
func (e *engine) stopInOrder() {
	e.s.t.Helper()
	e.signal(syscall.SIGTERM)
	if code := e.awaitExit(); code != 0 {
		e.s.t.Errorf("%s ended with code %d", e.name, code)
	}
}

// logged reports whether the engine's log holds the text.
func (e *engine) logged(text string) bool {
	e.s.t.Helper()
	raw, err := os.ReadFile(e.log)
	if err != nil {
		e.s.t.Fatal(err)
	}
	return bytes.Contains(raw, []byte(text))
}

// theAdapter returns the one adapter process of the engine.
func (e *engine) theAdapter() int {
	e.s.t.Helper()
	var pids []int
	e.s.eventually(e.name+" has one adapter", func() error {
		if pids = childrenOf(e.pid); len(pids) != 1 {
			return fmt.Errorf("it has %v", pids)
		}
		return nil
	})
	return pids[0]
}

// freeze stops processes as SIGSTOP does and returns when the kernel says that each of them stands still.
func (s *scene) freeze(pids ...int) {
	s.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			s.t.Fatalf("stop process %d: %v", pid, err)
		}
	}
	for _, pid := range pids {
		s.eventually("the process stands still", func() error {
			p, err := readProcess(pid)
			if err == nil && p.state != 'T' {
				err = fmt.Errorf("process %d is in state %c", pid, p.state)
			}
			return err
		})
	}
}

func (s *scene) thaw(pids ...int) {
	s.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			s.t.Fatalf("continue process %d: %v", pid, err)
		}
	}
}

// endAll ends every engine, however it is.
func (s *scene) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.engines {
		e.kill(true)
	}
}

// awaitNobody requires every process of the scene to be gone soon: an adapter ends with its engine, however that ended.
func (s *scene) awaitNobody() {
	s.t.Helper()
	var left []string
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = s.processes(); len(left) == 0 {
			return
		}
	}
	s.t.Errorf("left behind: %v", left)
	for _, p := range left {
		pid, _, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// processes lists the living processes whose command line names the scene's directory.
func (s *scene) processes() []string {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(s.dir+"/")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && p.state != 'Z' && p.state != 'X' {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// socketDirs lists what launches left in the engine's data directory.
func (e *engine) socketDirs() []string {
	e.s.t.Helper()
	found, err := filepath.Glob(filepath.Join(e.s.dir, e.name, "d", "run", "run-*"))
	if err != nil {
		e.s.t.Fatal(err)
	}
	return found
}

// files counts the open descriptors of the engine.
func (e *engine) files() int {
	e.s.t.Helper()
	found, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", e.pid))
	if err != nil {
		e.s.t.Fatal(err)
	}
	return len(found)
}

// process is what the kernel says of a process.
type process struct {
	state  byte
	parent int
}

var errStat = errors.New("not the form of a stat line")

func readProcess(pid int) (process, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// "pid (name) state parent …"; the name may hold anything.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 2 {
		return process{}, errStat
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return process{fields[0][0], parent}, err
}

// childrenOf lists the living child processes.
func childrenOf(parent int) []int {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && p.parent == parent && p.state != 'Z' && p.state != 'X' {
			pids = append(pids, pid)
		}
	}
	return pids
}
