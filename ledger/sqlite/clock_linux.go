package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// systemClock is the host's.
type systemClock struct{ offset time.Duration }

// newSystemClock reads the offset of a time namespace, so that containers of one host that share a ledger share its clock.
func newSystemClock() hostClock {
	raw, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return systemClock{} // a kernel without time namespaces
	}
	for line := range bytes.Lines(raw) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[0]) != "boottime" {
			continue
		}
		seconds, err1 := strconv.ParseInt(string(f[1]), 10, 64)
		nanos, err2 := strconv.ParseInt(string(f[2]), 10, 64)
		if err1 == nil && err2 == nil {
			return systemClock{time.Duration(seconds)*time.Second + time.Duration(nanos)}
		}
	}
	return systemClock{}
}

func (systemClock) BootID() (string, error) {
	const file = "/proc/sys/kernel/random/boot_id"
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if id := string(bytes.TrimSpace(raw)); id != "" {
		return id, nil
	}
	return "", fmt.Errorf("%s is empty", file)
}

func (c systemClock) Boot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()) - c.offset, nil
}

func (systemClock) Wall() time.Time { return time.Now() }
