package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

const (
	// groupWait is how long the rest of a killed process group may take to go.
	groupWait = time.Second
	// pipeWait is how long a pipe of a dead adapter is read before it is given up: a descendant may hold it open.
	pipeWait = 500 * time.Millisecond
	// busyTries and busyPause cover the moment in which another fork of this program still holds a fresh copy open.
	busyTries = 20
	busyPause = 10 * time.Millisecond
)

// process is one adapter process and everything that hangs on it. It is a go-plugin Runner, so that go-plugin does
// the handshake but owns neither the process nor its pipes.
type process struct {
	command *exec.Cmd
	output  *outputLog
	begins  *beginLog
	filter  stdoutFilter

	// Our ends of the pipes.
	lifeline, begin, stdout, stderr *os.File
	// What go-plugin reads instead: the handshake line, and nothing.
	shownOut, shownErr *io.PipeReader
	feedOut, feedErr   *io.PipeWriter

	readers   sync.WaitGroup
	exited    chan struct{} // the leader was reaped
	settled   chan struct{} // nothing more can become known
	groupGone bool          // read after settled
	waitErr   error         // read after exited

	mu      sync.Mutex
	pid     int
	called  bool // Start was called
	started bool // there is a process
	doomed  bool // kill was called
	reaped  bool
}

var _ runner.Runner = (*process)(nil)

func newProcess(path string, args, env []string, dir string, output *outputLog) *process {
	p := &process{
		command: &exec.Cmd{
			Path: path, Args: append([]string{path}, args...), Env: env, Dir: dir, SysProcAttr: processAttributes(),
		},
		output: output, begins: newBeginLog(), exited: make(chan struct{}), settled: make(chan struct{}),
	}
	p.shownOut, p.feedOut = io.Pipe()
	p.shownErr, p.feedErr = io.Pipe()
	return p
}

// Start starts the process. The goroutine that does so keeps its thread until the process ends: on Linux the kernel
// sends the parent-death signal when the thread ends that started the child.
func (p *process) Start(context.Context) error {
	p.mu.Lock()
	p.called = true
	p.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.spawn()
		result <- err
		if err == nil {
			p.reap()
		}
	}()
	err := <-result
	if err != nil {
		p.finish()
		return fmt.Errorf("start the program: %w", err)
	}
	return nil
}

// abandon settles a process that go-plugin gave up before it started it.
func (p *process) abandon() {
	p.mu.Lock()
	called := p.called
	p.called = true
	p.mu.Unlock()
	if !called {
		p.finish()
	}
}

// finish settles a process that never ran.
func (p *process) finish() {
	p.closeFeeds()
	close(p.exited)
	close(p.settled)
}

func (p *process) spawn() error {
	var ours, theirs [4]*os.File // lifeline, begin, stdout, stderr
	var err error
	for i := range ours {
		r, w, pipeErr := os.Pipe()
		err = errors.Join(err, pipeErr)
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	defer closeAll(theirs[:])
	if err == nil {
		p.lifeline, p.begin, p.stdout, p.stderr = ours[0], ours[1], ours[2], ours[3]
		p.command.ExtraFiles = make([]*os.File, 2)
		p.command.ExtraFiles[wire.LifelineFD-3], p.command.ExtraFiles[wire.BeginFD-3] = theirs[0], theirs[1]
		p.command.Stdout, p.command.Stderr = theirs[2], theirs[3]
		err = startCommand(p.command)
	}
	if err != nil {
		closeAll(ours[:])
		return err
	}
	p.mu.Lock()
	p.pid, p.started = p.command.Process.Pid, true
	doomed := p.doomed
	p.mu.Unlock()
	if doomed { // it was to be killed before it was there
		p.kill()
	}
	p.readers.Go(func() { p.begins.read(p.begin) })
	p.readers.Go(func() { p.filter.run(p.stdout, p.feedOut, p.output) })
	p.readers.Go(func() { readLines(p.stderr, p.output.stderr) })
	return nil
}

// startCommand starts the command, again while the kernel says that the file is being written (golang/go#22315).
func startCommand(command *exec.Cmd) error {
	for try := 1; ; try++ {
		attempt := *command
		err := attempt.Start()
		if errors.Is(err, syscall.ETXTBSY) && try < busyTries {
			time.Sleep(busyPause)
			continue
		}
		*command = attempt
		return err
	}
}

// reap waits for the leader, kills what is left of its group while the leader's number cannot be reused, and finds
// out what can be known.
func (p *process) reap() {
	awaitExit(p.pid)
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	p.waitErr = p.command.Wait()
	p.reaped = true
	p.mu.Unlock()
	close(p.exited)

	deadline := time.Now().Add(pipeWait)
	p.groupGone = awaitGroupEnd(p.pid, groupWait)
	for _, pipe := range []*os.File{p.begin, p.stdout, p.stderr} {
		_ = pipe.SetReadDeadline(later(deadline, time.Now().Add(pipeWait/5)))
	}
	p.closeFeeds() // wakes a reader that waits for go-plugin to take the handshake
	p.readers.Wait()
	closeAll([]*os.File{p.lifeline, p.begin, p.stdout, p.stderr})
	close(p.settled)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *process) closeFeeds() {
	_ = p.feedOut.Close()
	_ = p.feedErr.Close()
}

// awaitGroupEnd waits until no process of the group is alive. There is no event to wait for.
func awaitGroupEnd(pgid int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; !groupGone(pgid); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// kill kills the whole group. It does nothing once the leader was reaped: its number may belong to another by then,
// and the group was killed already. A process that has not been started yet is killed when it is.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = true
	if p.started && !p.reaped {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

// neverBegan reports whether it is proven that the call did not pass Begin and never will: the whole group is gone and
// the pipe is at its end, intact, without a record of the call.
func (p *process) neverBegan(id string) bool {
	select {
	case <-p.settled:
		return p.groupGone && p.begins.never(id)
	default:
		return false
	}
}

// ending says how the process ended.
func (p *process) ending() string {
	if p.waitErr != nil {
		return p.waitErr.Error()
	}
	return "exit status 0"
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// The rest of runner.Runner.

func (p *process) Stdout() io.ReadCloser { return p.shownOut }
func (p *process) Stderr() io.ReadCloser { return p.shownErr }
func (p *process) Name() string          { return p.command.Path }

// ID is empty until the process has been started.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return ""
	}
	return fmt.Sprint(p.pid)
}

func (p *process) Wait(context.Context) error {
	<-p.settled
	return p.waitErr
}

func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

func (p *process) Diagnose(context.Context) string { return "" }

func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
