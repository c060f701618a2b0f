package boottime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the boot-time clock in nanoseconds. A clock that cannot be read is beyond every deadline.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return math.MaxInt64
	}
	return ts.Nano()
}

// Deadline is one instant on both clocks, in nanoseconds. It has passed as soon as either clock has reached it. The
// zero Deadline has passed.
type Deadline struct {
	Boot int64
	Wall int64 // since the Unix epoch
}

// At returns t as a Deadline. Where t's monotonic and wall readings disagree, the earlier one counts.
func At(t time.Time) Deadline {
	boot := Now() // before the remaining time is taken: being early is the safe side
	now := time.Now()
	left := min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
	if t.IsZero() || boot == math.MaxInt64 {
		return Deadline{}
	}
	return Deadline{Boot: boot + int64(left), Wall: t.UnixNano()}
}

// Passed reports whether the deadline has been reached, given the readings of both clocks.
func (d Deadline) Passed(boot, wall int64) bool { return boot >= d.Boot || wall >= d.Wall }
