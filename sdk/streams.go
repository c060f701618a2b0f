package sdk

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// claimStandardStreams keeps the real standard output for the handshake line alone and points descriptor 1 at
// standard error, so that a stray print, of Go, of C or of a child, can neither be taken for the handshake nor fill a
// pipe that nobody reads. It returns standard error, for the log.
func claimStandardStreams() (*os.File, error) {
	handshake, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, wire.BeginFD+1)
	if err != nil {
		return nil, fmt.Errorf("keep standard output: %w", err)
	}
	logs, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, wire.BeginFD+1)
	if err != nil {
		return nil, fmt.Errorf("keep standard error: %w", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, fmt.Errorf("redirect standard output: %w", err)
	}
	os.Stdout = os.NewFile(uintptr(handshake), "handshake")
	return os.NewFile(uintptr(logs), "stderr"), nil
}

// newLogHandler writes one JSON object per line; long values are cut, because the reader splits long lines.
func newLogHandler(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindString {
				a.Value = slog.StringValue(wire.Text(a.Value.String()))
			}
			return a
		},
	})
}
