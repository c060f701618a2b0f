package sdk

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

// A process that was stopped runs Begin before its watching goroutine has seen the end of the pipe: the question must
// go to the kernel.
func TestLifelineIsCutTheMomentTheEngineIsGone(t *testing.T) {
	r, w := pipe(t)
	unwatched := &lifeline{fd: r}
	defer func() { _ = unix.Close(r) }()
	if unwatched.cut() {
		t.Fatal("cut while the engine holds its end")
	}
	if err := unix.Close(w); err != nil {
		t.Fatal(err)
	}
	if !unwatched.cut() {
		t.Error("not cut after the engine's end was closed")
	}
}

func TestLifelineWakesItsWatcher(t *testing.T) {
	r, w := pipe(t)
	l, err := openLifeline(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.file.Close() }()
	select {
	case <-l.gone:
		t.Fatal("gone while the engine lives")
	default:
	}
	_ = unix.Close(w)
	<-l.gone
}

func TestDescriptorsAreChecked(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := openLifeline(int(file.Fd())); err == nil || !strings.Contains(err.Error(), "not a pipe") {
		t.Errorf("a file as lifeline: %v", err)
	}
	if _, err := openBeginPipe(9999); err == nil {
		t.Error("a closed descriptor was accepted as begin pipe")
	}
}

func TestDescriptorsAreKeptFromChildren(t *testing.T) {
	r, w := pipe(t)
	defer func() { _, _ = unix.Close(r), unix.Close(w) }()
	if _, err := openBeginPipe(w); err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(w), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v: a child would inherit the begin pipe", flags, err)
	}
}

func TestRecordIsInThePipeWhenBeginReturnsAndAFullPipeRefuses(t *testing.T) {
	r, w := pipe(t)
	reader := os.NewFile(uintptr(r), "engine")
	p, err := openBeginPipe(w)
	if err != nil {
		t.Fatal(err)
	}
	id := wire.NewCallID()
	if err := p.record(id); err != nil {
		t.Fatal(err)
	}
	var got [wire.RecordSize]byte
	if _, err := io.ReadFull(reader, got[:]); err != nil || string(got[:]) != string(wire.Record(id)) {
		t.Errorf("the pipe holds %q, %v", got, err)
	}
	var full error
	for n := 0; full == nil && n < 1<<20; n++ {
		full = p.record(id)
	}
	if full == nil {
		t.Error("a pipe that nobody reads took every record")
	}
	_ = reader.Close()
	if err := p.record(id); err == nil {
		t.Error("a record without a reader was accepted")
	}
	_ = unix.Close(w)
}
