package sqlite

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemClock is the host's.
type systemClock struct{}

func newSystemClock() hostClock { return systemClock{} }

func (systemClock) BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Boot reads the clock that on macOS goes on while the machine sleeps.
func (systemClock) Boot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

func (systemClock) Wall() time.Time { return time.Now() }
