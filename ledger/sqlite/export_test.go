package sqlite

import (
	"context"
	"sync"
	"time"
)

// FakeClock is a host's clock that a test moves.
type FakeClock struct {
	mu    sync.Mutex
	id    string
	boot  time.Duration // added to the real one
	wall  time.Duration // added to the real one
	begun time.Time
}

// NewFakeClock is a clock that runs like the real one.
func NewFakeClock() *FakeClock { return &FakeClock{id: "boot-1", begun: time.Now()} }

// WithClock makes the options use a host's clock.
func WithClock(o Options, c *FakeClock) Options {
	o.clock = c
	return o
}

func (c *FakeClock) BootID() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id, nil
}

func (c *FakeClock) Boot() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.begun) + c.boot, nil
}

func (c *FakeClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.wall)
}

// Advance lets time pass, on both clocks.
func (c *FakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot += d
	c.wall += d
}

// SetWall is somebody setting the wall clock.
func (c *FakeClock) SetWall(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

// Reboot begins a new boot whose boot-time clock begins at 0.
func (c *FakeClock) Reboot(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.begun, c.boot = id, time.Now(), 0
}

// Waiting is how many jobs wait for the writer.
func (l *Ledger) Waiting() int {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	return len(l.writer.waiting)
}

// Synchronous reads how the writer flushes.
func (l *Ledger) Synchronous(ctx context.Context) (level int, err error) {
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		return s.row(ctx, "PRAGMA synchronous", nil, &level)
	})
	return level, err
}
