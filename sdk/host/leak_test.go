//go:build linux

package host_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlworks/pawl/sdk/host"
)

// Goroutines, descriptors and processes are counted before and after every kind of end.
func TestNothingIsLeftOfAdapters(t *testing.T) {
	cycle := func(mode string, adjust func(*host.Options)) {
		options, path := optionsFor(t, mode)
		options.Logger = nil
		if adjust != nil {
			adjust(&options)
		}
		defer killChild(path)
		a, err := host.Launch(context.Background(), options)
		if err != nil {
			return
		}
		for range 3 {
			_, _ = a.Send(context.Background(), attempt(time.Minute))
		}
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	modes := []string{
		"good", "dies before begin", "dies after begin", "child holds its output, then dies",
		"escaped child holds the begin pipe, then dies", "ends at start", "speaks another version", "panics at start",
		"floods standard output", "hangs at start",
	}
	cycle("good", nil) // what is made once for all is made now
	goroutines := goleak.IgnoreCurrent()
	files, processes := openFiles(t), len(children(os.Getpid()))
	for _, mode := range modes {
		cycle(mode, func(o *host.Options) {
			if mode == "hangs at start" {
				o.StartTimeout = 200 * time.Millisecond
			}
			if mode == "good" {
				o.SHA256 = copyProgram(t, o.Dir+"-program")
				o.Path = o.Dir + "-program"
			}
		})
	}
	if err := goleak.Find(goroutines); err != nil {
		t.Errorf("goroutines are left: %v", err)
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d before", now, files)
	}
	if now := len(children(os.Getpid())); now > processes {
		t.Errorf("%d children are left, %d before", now, processes)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc on this system")
	}
	return len(entries)
}
