package host

import (
	"io"
	"regexp"
	"strconv"
	"sync/atomic"
)

// handshakeLine finds the handshake of go-plugin: core protocol, our protocol, network, address, transport, and what
// follows. Something may have been printed before it, even on its line.
var handshakeLine = regexp.MustCompile(`1\|(\d{1,6})\|(?:unix|tcp)\|[^|]+\|grpc(?:\|.*)?$`)

// stdoutFilter reads an adapter's standard output for ever: it passes the handshake on, once, and logs the rest.
// Without it go-plugin stops reading at the first line that it finds too long, and the adapter blocks.
type stdoutFilter struct {
	version atomic.Int64 // the protocol version offered; 0 before the handshake
}

func (f *stdoutFilter) run(from io.Reader, to io.Writer, log *outputLog) {
	readLines(from, func(line []byte) {
		match := handshakeLine.FindSubmatchIndex(line)
		if f.version.Load() != 0 || match == nil {
			log.stdout(line)
			return
		}
		if match[0] > 0 {
			log.stdout(line[:match[0]])
		}
		version, _ := strconv.ParseInt(string(line[match[2]:match[3]]), 10, 64)
		f.version.Store(max(version, 1))
		_, _ = to.Write(append(line[match[0]:len(line):len(line)], '\n'))
	})
}
