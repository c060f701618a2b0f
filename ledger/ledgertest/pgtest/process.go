package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
)

// process is one run of a server program. exited is closed when it has ended.
type process struct {
	pid    int
	log    string
	exited chan struct{}
}

// launch starts a prepared program, with its output added to the file log.
func launch(c *exec.Cmd, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	p := &process{log: log, exited: make(chan struct{})}
	started := make(chan error, 1)
	// The kernel sends the death signal when the thread that forked ends: this one is kept until the server has ended.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		if err := c.Start(); err != nil {
			started <- err
			return
		}
		p.pid = c.Process.Pid
		started <- nil
		_ = c.Wait() // how it ended is in the log
	}()
	return p, <-started
}

// await waits until the server answers at the URL.
func (p *process) await(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.exited:
			out, _ := os.ReadFile(p.log)
			return fmt.Errorf("ended while it started: %s", out)
		case <-ctx.Done():
			return fmt.Errorf("does not answer: %w", err)
		case <-time.After(pollTime):
		}
	}
}
