package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

const (
	// maxLine bounds a line of an adapter's output, in bytes; the rest is dropped.
	maxLine = 16 << 10
	// lineBurst and linesPerSecond bound how much of an adapter's output is logged.
	lineBurst      = 500
	linesPerSecond = 100
	// tailLines is how many of the last lines a LaunchError shows.
	tailLines = 12
)

// outputLog turns what an adapter writes into log lines, bounded and redacted.
type outputLog struct {
	logger *slog.Logger
	redact func(string) string

	mu      sync.Mutex
	tail    []string
	budget  float64
	filled  time.Time
	dropped int
}

func newOutputLog(logger *slog.Logger, redact func(string) string) *outputLog {
	return &outputLog{logger: logger, redact: redact, budget: lineBurst, filled: time.Now()}
}

// readLines calls f with each line until r ends. Lines are cut at maxLine.
func readLines(r io.Reader, f func([]byte)) {
	in := bufio.NewReaderSize(r, maxLine)
	cut := false
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		if !cut {
			f(line)
		}
		cut = more
	}
}

// stdout logs a line of standard output, which an adapter of this SDK never writes.
func (o *outputLog) stdout(line []byte) {
	o.write(slog.LevelWarn, "adapter wrote to standard output", slog.String("line", string(line)))
}

// stderr logs a line of standard error: a JSON object of slog or hclog, or plain text.
func (o *outputLog) stderr(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var entry map[string]any
	if line[0] != '{' || json.Unmarshal(line, &entry) != nil {
		level := slog.LevelWarn
		if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) {
			level = slog.LevelError
		}
		o.write(level, "adapter wrote to standard error", slog.String("line", string(line)))
		return
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(take(entry, "level", "@level"))); err != nil {
		level = slog.LevelInfo
	}
	message := take(entry, "msg", "@message")
	take(entry, "time", "@timestamp")
	attrs := make([]slog.Attr, 0, len(entry))
	for key, value := range entry {
		attrs = append(attrs, slog.String(key, fmt.Sprint(value)))
	}
	slices.SortFunc(attrs, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	o.write(level, message, attrs...)
}

// take removes the keys from the entry and returns the first one's text.
func take(entry map[string]any, keys ...string) string {
	text := ""
	for _, key := range keys {
		if value, ok := entry[key]; ok && text == "" {
			text = fmt.Sprint(value)
		}
		delete(entry, key)
	}
	return text
}

func (o *outputLog) write(level slog.Level, message string, attrs ...slog.Attr) {
	message = o.redact(wire.Text(message))
	shown := message
	for i, a := range attrs {
		attrs[i].Value = slog.StringValue(o.redact(wire.Text(a.Value.String())))
		if a.Key == "line" || a.Key == "error" || a.Key == "panic" {
			shown += ": " + attrs[i].Value.String()
		}
	}
	if !o.admit(shown) {
		return
	}
	o.logger.LogAttrs(context.Background(), level, message, attrs...)
}

// admit keeps the line for a LaunchError and says whether it may be logged.
func (o *outputLog) admit(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tail = append(o.tail, line); len(o.tail) > tailLines {
		o.tail = o.tail[1:]
	}
	now := time.Now()
	o.budget = min(lineBurst, o.budget+now.Sub(o.filled).Seconds()*linesPerSecond)
	o.filled = now
	if o.budget < 1 {
		o.dropped++
		return false
	}
	o.budget--
	if o.dropped > 0 {
		o.logger.Warn("adapter wrote too much; lines were left out", "lines", o.dropped)
		o.dropped = 0
	}
	return true
}

// last returns the last lines.
func (o *outputLog) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tail)
}
