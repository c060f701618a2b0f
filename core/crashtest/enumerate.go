package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Victim says how to start the program that dies.
type Victim struct {
	Command []string // program and arguments
	// Environment is added to this process's.
	Environment []string
}

// Result is one victim's life.
type Result struct {
	Point  int    // where it was to die; 0: nowhere
	Died   bool   // killed by its own SIGKILL
	Name   string // of the last point that it passed
	Passed int    // how many points it passed
	Output string
}

// Run starts the victim, to die at a point (0: at none), and waits for its end. The error is for a victim that ended in any
// other way than by its own SIGKILL or with exit code 0.
func (v Victim) Run(ctx context.Context, point int, scratch string) (Result, error) {
	names, err := os.CreateTemp(scratch, "points-")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = os.Remove(names.Name()) }()
	defer func() { _ = names.Close() }()
	cmd := exec.CommandContext(ctx, v.Command[0], v.Command[1:]...)
	cmd.Env = append(append(os.Environ(), v.Environment...), envPoint+"="+strconv.Itoa(point), envNames+"="+names.Name())
	out, err := cmd.CombinedOutput()
	r := Result{Point: point, Output: string(out)}
	if text, readErr := os.ReadFile(names.Name()); readErr == nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if last := lines[len(lines)-1]; last != "" {
			number, name, _ := strings.Cut(last, " ")
			r.Passed, _ = strconv.Atoi(number)
			r.Name = name
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			r.Died = true
			return r, nil
		}
	}
	if err != nil {
		return r, fmt.Errorf("point %d (%s): %w\n%s", point, r.Name, err, out)
	}
	return r, nil
}

// Enumerate lets victims die at point 1, 2, 3 …, each in a world of its own, until one ends without dying. For each point it calls prepare,
// which makes the world and says how to start the victim in it, and after the death check, which runs the recovery and counts. At most
// atOnce worlds live at the same time. It returns how many points there were.
func Enumerate[W any](ctx context.Context, atOnce int, scratch string, prepare func(point int) (W, Victim, error), check func(W, Result) error) (points int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu   sync.Mutex
		next = 1
		end  = -1 // the first point that no victim reached
		errs []error
		wg   sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) > 3 || end >= 0 && next >= end || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	one := func(point int) error {
		world, victim, err := prepare(point)
		if err != nil {
			return fmt.Errorf("point %d: prepare: %w", point, err)
		}
		r, err := victim.Run(ctx, point, scratch)
		if err != nil {
			return err
		}
		if !r.Died {
			mu.Lock()
			if end < 0 || point < end {
				end = point
			}
			mu.Unlock()
		}
		if err := check(world, r); err != nil {
			return fmt.Errorf("point %d (%s): %w", point, r.Name, err)
		}
		return nil
	}
	for range max(atOnce, 1) {
		wg.Go(func() {
			for {
				point, ok := take()
				if !ok {
					return
				}
				if err := one(point); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if end < 0 {
		return 0, errors.Join(append(errs, errors.New("no victim ran to its end"))...)
	}
	return end - 1, errors.Join(errs...)
}
