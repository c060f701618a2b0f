package host

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// beginLog is what one generation wrote to its Begin pipe. Only calls that were announced are kept, so a hostile
// adapter cannot make it grow.
type beginLog struct {
	mu       sync.Mutex
	expected map[string]bool // call id: has a record
	garbled  bool            // something that is no record was read: nothing is concluded from what is missing
	atEnd    bool            // the pipe was read to its end
	stray    int             // well-formed records of no call under way
}

func newBeginLog() *beginLog { return &beginLog{expected: make(map[string]bool)} }

func (b *beginLog) expect(id string) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected[id] = false
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.expected, id)
	}
}

// read takes records until the pipe ends, or a deadline of the file says that it will not.
func (b *beginLog) read(r io.Reader) {
	in := bufio.NewReader(r)
	var record [wire.RecordSize]byte
	for {
		n, err := io.ReadFull(in, record[:])
		b.mu.Lock()
		if err != nil {
			b.garbled = b.garbled || n > 0
			b.atEnd = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			b.mu.Unlock()
			return
		}
		id, ok := wire.ParseRecord(record[:])
		if _, known := b.expected[id]; ok && known {
			b.expected[id] = true
		} else if ok {
			b.stray++
		} else {
			b.garbled = true
		}
		b.mu.Unlock()
	}
}

// never reports whether the pipe is at its end, intact and without a record of the call.
func (b *beginLog) never(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	begun, known := b.expected[id]
	return b.atEnd && !b.garbled && known && !begun
}
