package wire

import (
	"crypto/rand"
	"encoding/hex"
)

const (
	recordPrefix = "begin "
	callIDSize   = 32
	// RecordSize is the size of a Begin record in bytes. It is under PIPE_BUF, so that one write is atomic.
	RecordSize = len(recordPrefix) + callIDSize + 1
)

// NewCallID returns a fresh call id.
func NewCallID() string {
	var b [callIDSize / 2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// ValidCallID reports whether id can stand in a Begin record.
func ValidCallID(id string) bool {
	if len(id) != callIDSize {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Record returns the Begin record of the call: "begin ", the id, a newline.
func Record(id string) []byte { return []byte(recordPrefix + id + "\n") }

// ParseRecord returns the call id of one record.
func ParseRecord(b []byte) (string, bool) {
	if len(b) != RecordSize || string(b[:len(recordPrefix)]) != recordPrefix || b[RecordSize-1] != '\n' {
		return "", false
	}
	id := string(b[len(recordPrefix) : RecordSize-1])
	return id, ValidCallID(id)
}
