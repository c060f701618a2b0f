package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
)

// fileWorld is a file that lines are appended to.
type fileWorld struct{ run, path string }

func newFileWorld(dir string) (world, error) {
	return &fileWorld{run: uuid.NewString()[:8], path: filepath.Join(dir, "effects.jsonl")}, nil
}

func (w *fileWorld) kind() string           { return "file" }
func (w *fileWorld) adapter() string        { return "file" }
func (w *fileWorld) config() map[string]any { return map[string]any{"path": w.path} }
func (w *fileWorld) cut() bool              { return false }
func (w *fileWorld) gap(func()) bool        { return false }
func (w *fileWorld) close() error           { return nil }

func (w *fileWorld) claim(n int) (json.RawMessage, string, error) {
	identity := map[string]any{"marker": marker(w.run, n)}
	payload, err := json.Marshal(identity)
	if err != nil {
		return nil, "", err
	}
	key, err := canonical.Key("file", identity)
	return payload, key, err
}

// count reads the file. A line without its end was never finished and is no effect.
func (w *fileWorld) count(context.Context) (map[int]int, error) {
	counts := map[int]int{}
	f, err := os.Open(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return counts, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	prefix := "pawl-demo-" + w.run + "-"
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return counts, nil // the end, or a torn last line
		}
		if _, after, ok := strings.Cut(line, prefix); ok && len(after) >= 6 && json.Valid([]byte(line)) {
			if n, err := strconv.Atoi(after[:6]); err == nil {
				counts[n]++
			}
		}
	}
}
