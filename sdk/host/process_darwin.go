package host

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processAttributes make the process the leader of a group of its own. There is no parent-death signal; the lifeline
// does its work.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits until the process has ended and leaves it unreaped.
func awaitExit(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		time.Sleep(groupWait)
		return
	}
	defer func() { _ = unix.Close(queue) }()
	change := []unix.Kevent_t{{
		Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT,
	}}
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, change, events, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n > 0 || err != nil {
			return
		}
	}
}

// groupGone reports whether no process of the group is left.
func groupGone(pgid int) bool { return errors.Is(unix.Kill(-pgid, 0), unix.ESRCH) }
