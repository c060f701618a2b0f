package sdk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// lifeline is the read end of a pipe whose write end only the engine holds. Nothing is ever written to it.
type lifeline struct {
	fd   int
	file *os.File
	gone chan struct{} // closed when the engine is gone
}

func openLifeline(fd int) (*lifeline, error) {
	if err := checkPipe(fd); err != nil {
		return nil, fmt.Errorf("lifeline on descriptor %d: %w", fd, err)
	}
	l := &lifeline{fd: fd, file: os.NewFile(uintptr(fd), "lifeline"), gone: make(chan struct{})}
	go l.watch()
	return l, nil
}

// watch ends with the process: the engine is the only one who can wake it.
func (l *lifeline) watch() {
	defer close(l.gone)
	var b [1]byte
	for {
		if n, err := l.file.Read(b[:]); n == 0 || err != nil {
			return
		}
	}
}

// cut reports whether the engine is gone, now: it asks the kernel, since the watching goroutine may not have run yet
// in a process that was stopped.
func (l *lifeline) cut() bool {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || n > 0
	}
}

// beginPipe is the write end of the pipe for Begin records.
type beginPipe struct{ fd int }

func openBeginPipe(fd int) (*beginPipe, error) {
	if err := checkPipe(fd); err != nil {
		return nil, fmt.Errorf("begin pipe on descriptor %d: %w", fd, err)
	}
	return &beginPipe{fd: fd}, nil
}

var errShortRecord = errors.New("the pipe took a part of the record")

// record writes one record with one write. The pipe does not block: a full one means that the engine is not reading,
// and then nothing may be begun.
func (p *beginPipe) record(callID string) error {
	for {
		n, err := unix.Write(p.fd, wire.Record(callID))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n != wire.RecordSize:
			return errShortRecord
		}
		return nil
	}
}

// checkPipe makes sure that the descriptor is the pipe that the engine hands over, and keeps it from children.
func checkPipe(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("not inherited from the engine: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return errors.New("not a pipe: the engine that started this process is not a Pawl engine")
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("make it not block: %w", err)
	}
	return nil
}
