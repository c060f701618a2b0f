package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/boottime"
)

// Ground is what the gate stands on: the process's lifeline, its pipe and its clocks.
type Ground struct {
	EngineGone func() bool
	// Record writes the Begin record of the call, synchronously.
	Record func(callID string) error
	// Now reads the boot-time and the wall clock, in nanoseconds.
	Now func() (boot, wall int64)
}

var (
	errCallEnded  = errors.New("begin refused: the call that this attempt belongs to has ended")
	errEngineGone = errors.New("begin refused: the engine is gone")
	errTooLate    = errors.New("begin refused: the not-after time of this attempt has passed")
	errGivenUp    = errors.New("begin refused: the engine has given this call up")
	errTwice      = errors.New("begin was called twice in one send; at most one effect belongs to an attempt")
)

// gate is the Begin of one Send.
type gate struct {
	ctx      context.Context
	callID   string
	deadline boottime.Deadline
	ground   Ground

	mu       sync.Mutex
	refused  error // what Begin answered, if it refused
	recorded bool  // the record was written
	open     bool  // Begin returned nil
	twice    bool
	ended    bool
}

func (g *gate) begin() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open && !g.ended {
		g.twice = true
		return channel.Ambiguous("begin called twice", errTwice)
	}
	if g.ended {
		return channel.NotSent(errCallEnded)
	}
	if g.refused == nil {
		g.refused = g.try()
	}
	if g.refused != nil {
		return channel.NotSent(g.refused)
	}
	g.open = true
	trace.SpanFromContext(g.ctx).AddEvent("begin")
	return nil
}

func (g *gate) try() error {
	if err := g.look(); err != nil {
		return err
	}
	if err := g.ground.Record(g.callID); err != nil {
		return fmt.Errorf("begin refused: cannot write the record: %w", err)
	}
	g.recorded = true
	return g.look() // the process may have been stopped while it wrote
}

// look asks the clocks last, so that time spent on the other questions is not lost.
func (g *gate) look() error {
	if g.ctx.Err() != nil {
		return errGivenUp
	}
	if g.ground.EngineGone() {
		return errEngineGone
	}
	if boot, wall := g.ground.Now(); g.deadline.Passed(boot, wall) {
		return errTooLate
	}
	return nil
}

// end shuts the gate for good and says what happened at it.
func (g *gate) end() (recorded, opened, twice bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	return g.recorded, g.open, g.twice
}
