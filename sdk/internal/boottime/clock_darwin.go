package boottime

import "golang.org/x/sys/unix"

// On macOS CLOCK_MONOTONIC goes on while the machine sleeps.
const clock = unix.CLOCK_MONOTONIC
