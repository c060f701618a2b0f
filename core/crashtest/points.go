package crashtest

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const (
	// envPoint is the number of the point to die at; 0 or unset: at none.
	envPoint = "PAWL_CRASHTEST_POINT"
	// envNames is a file to which the names of points are appended as they are passed.
	envNames = "PAWL_CRASHTEST_NAMES"
	// envOnce is a file: only whoever can remove it dies. A program that is started again with the same environment lives.
	envOnce = "PAWL_CRASHTEST_ONCE"
)

// Points counts the points that a victim passes. It is safe for concurrent use.
type Points struct {
	mu    sync.Mutex
	at    int
	n     int
	names *os.File
	once  string
}

// FromEnvironment returns the points of a victim, as [Enumerate] started it. In any other process it counts and kills nobody.
func FromEnvironment() (*Points, error) {
	p := &Points{once: os.Getenv(envOnce)}
	if text := os.Getenv(envPoint); text != "" {
		at, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", envPoint, err)
		}
		p.at = at
	}
	if path := os.Getenv(envNames); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		p.names = f
	}
	return p, nil
}

// Hit passes a point, or dies at it.
func (p *Points) Hit(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.names != nil {
		fmt.Fprintf(p.names, "%d %s\n", p.n, name)
	}
	if p.n == p.at && (p.once == "" || os.Remove(p.once) == nil) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way: do nothing more, with the lock held
	}
}

// Passed returns how many points were passed.
func (p *Points) Passed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// Once is the environment of a program that somebody else starts, and starts again: it dies at the point the first time only. file is
// made, and is gone after the death.
func Once(point int, file string) (map[string]string, error) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	return map[string]string{envPoint: strconv.Itoa(point), envOnce: file}, nil
}
