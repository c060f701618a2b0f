//go:build linux

package host_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// logBuffer keeps what the host logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testLogger shows the log of a test that failed.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	logger, buffer := bufferedLogger()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the host:\n%s", buffer)
		}
	})
	return logger
}

func bufferedLogger() (*slog.Logger, *logBuffer) {
	buffer := new(logBuffer)
	return slog.New(slog.NewJSONHandler(buffer, &slog.HandlerOptions{Level: slog.LevelDebug})), buffer
}
