package server

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// hardWait is how long a second signal waits for the engine to record what it knows.
const hardWait = 5 * time.Second

// Names of log events. They are stable.
const (
	EventSignal      = "server.signal"
	EventCertificate = "server.certificate" // was read again, or could not be
)

// ErrHardStop says that the engine was stopped while effects were under way. They are reconciled at the next start.
var ErrHardStop = errors.New("stopped at once; what was under way is reconciled at the next start")

// Run runs the engine, and answers requests, until ctx ends or signals delivers: the first signal stops in order, the second at
// once. SIGHUP reloads, if the options say how.
//
// A stop in order: readiness says no and long polls end with what is known; the engine takes nothing more and finishes what is under
// way; requests are answered, claims too, for the drain time, then no new connection is taken.
func (s *Server) Run(ctx context.Context, signals <-chan os.Signal) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var reloads sync.WaitGroup
	defer reloads.Wait()
	failed := make(chan error, 2)
	for _, w := range s.webs() {
		w.serve(failed)
	}
	engine := make(chan error, 1)
	go func() { engine <- s.Engine.Run(running) }()

	draining, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var drained <-chan error
	begin := func() {
		if drained == nil {
			s.beginStop()
			s.endRetry()
			stop()
			drained = s.drain(draining)
		}
	}
	asked, signalled := ctx.Done(), false
	var faults []error
	for left := 2; left > 0; {
		select {
		case err := <-engine:
			faults = append(faults, err)
			if left--; err != nil {
				cut() // nothing is left to wait for
			}
			begin()
		case err := <-drained:
			faults = append(faults, err)
			left--
			drained = nil
			begin = func() {}
		case err := <-failed: // an address is lost: better to end, and be started again
			faults = append(faults, err)
			begin()
		case <-asked:
			asked = nil
			begin()
		case got := <-signals:
			if got == syscall.SIGHUP && s.load != nil {
				reloads.Go(func() { s.reload(running) })
				continue
			}
			s.logger.Info(EventSignal, "signal", got.String(), "again", signalled)
			if signalled {
				return s.stopNow(engine)
			}
			signalled = true
			begin()
		}
	}
	return errors.Join(faults...)
}

// drain stops the web servers beside each other; what it returns delivers once, when all have ended.
func (s *Server) drain(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		var stops sync.WaitGroup
		faults := make([]error, len(s.webs()))
		for i, w := range s.webs() {
			stops.Go(func() { faults[i] = w.stop(ctx) })
		}
		stops.Wait()
		done <- errors.Join(faults...)
	}()
	return done
}

// stopNow ends requests and adapters, which ends every call under way, and gives the engine a moment to write down what it knows.
func (s *Server) stopNow(engine <-chan error) error {
	for _, w := range s.webs() {
		_ = w.server.Close()
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range s.members {
		if a, _ := m.now(); a != nil {
			_ = a.Close(over) // reports that it did not wait, which is what was asked for
		}
	}
	t := time.NewTimer(hardWait)
	defer t.Stop()
	select {
	case <-engine:
	case <-t.C:
	}
	return ErrHardStop
}
