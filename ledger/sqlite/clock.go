package sqlite

import (
	"context"
	"fmt"
	"time"
)

const (
	// reserveAhead is how far ahead of the clock the greatest time is written down, so that not every transaction has to.
	reserveAhead = 5 * time.Second
	// wallDrift is how far the ledger's clock may be from the host's wall clock before opening it says so.
	wallDrift = time.Minute
)

// hostClock is what the ledger's clock is made of. Tests have one of their own.
type hostClock interface {
	// BootID names this boot of the host.
	BootID() (string, error)
	// Boot is the clock that counts from the boot, also while the host sleeps, and that nobody can set.
	Boot() (time.Duration, error)
	// Wall is read once for each boot.
	Wall() time.Time
}

// ledgerClock is "the database's clock": SQLite has none, so it is the host's boot-time clock, anchored in the ledger's file at the first
// open of each boot. Setting the wall clock changes nothing, and a new boot begins no earlier than the greatest time stored.
type ledgerClock struct {
	host  hostClock
	boot  time.Duration // the host's clock at the anchor
	wall  time.Time     // the ledger's clock at the anchor
	until time.Time     // no time after it may be stored before it is reserved; guarded by the writer
}

// now reads the clock.
func (c *ledgerClock) now() (time.Time, error) {
	boot, err := c.host.Boot()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the boot-time clock: %w", err)
	}
	return c.wall.Add(boot - c.boot).Truncate(time.Microsecond), nil
}

// anchor reads the anchor of this boot, or writes it.
func (c *ledgerClock) anchor(ctx context.Context, s *session) error {
	id, err := c.host.BootID()
	if err != nil {
		return fmt.Errorf("read the host's boot id: %w", err)
	}
	boot, err := c.host.Boot()
	if err != nil {
		return fmt.Errorf("read the boot-time clock: %w", err)
	}
	var bootNS, wallUS, highUS int64
	if err := s.row(ctx, "SELECT high_us FROM ledger_clock_high WHERE id = 1", nil, &highUS); err != nil {
		return fmt.Errorf("read the greatest time: %w", err)
	}
	found, err := s.find(ctx, "SELECT boot_ns, wall_us FROM ledger_clock WHERE boot_id = ?", []any{id}, &bootNS, &wallUS)
	if err != nil {
		return fmt.Errorf("read the clock's anchor: %w", err)
	}
	if found && boot >= time.Duration(bootNS) {
		c.boot, c.wall = time.Duration(bootNS), time.UnixMicro(wallUS).UTC()
		return nil
	}
	// A boot-time clock behind its own anchor is another host's with the same boot id, or a machine set back: begin anew.
	c.boot = boot
	c.wall = c.host.Wall().UTC().Truncate(time.Microsecond)
	if high := time.UnixMicro(highUS).UTC(); high.After(c.wall) {
		c.wall = high
	}
	_, err = s.exec(ctx, "INSERT INTO ledger_clock (boot_id, boot_ns, wall_us) VALUES (?, ?, ?)"+
		" ON CONFLICT (boot_id) DO UPDATE SET boot_ns = excluded.boot_ns, wall_us = excluded.wall_us", id, int64(c.boot), c.wall.UnixMicro())
	if err != nil {
		return fmt.Errorf("write the clock's anchor: %w", err)
	}
	return nil
}

// now reads the clock within a transaction that writes, and reserves the time where that is due.
func (s *session) now(ctx context.Context) (time.Time, error) {
	now, err := s.l.clock.now()
	if err != nil || s.readOnly || now.Before(s.reserved) {
		return now, err
	}
	until := now.Add(reserveAhead)
	if _, err := s.exec(ctx, "UPDATE ledger_clock_high SET high_us = ? WHERE id = 1 AND high_us < ?", until.UnixMicro(), until.UnixMicro()); err != nil {
		return now, fmt.Errorf("reserve time: %w", err)
	}
	s.reserved = until
	return now, nil
}
