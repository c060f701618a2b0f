package receipt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"github.com/pawlworks/pawl/canonical"
)

const (
	// maxEvidence bounds, in bytes, evidence and approvals carried whole;
	// beyond it a receipt holds their digest.
	maxEvidence = 64 << 10
	// maxEvidenceDepth keeps receipts readable by verifiers that recurse.
	maxEvidenceDepth = 64
)

// unportable is foreign JSON that canonical JSON would change or refuse. It is
// carried beside an empty value, so that nobody mistakes it for what the
// outside system would have said in plain JSON.
type unportable struct {
	why      string
	encoding string // "utf-8", "base64", or "sha256" for a digest only
	data     string
	bytes    int // length of what was stored
}

func (u *unportable) write() []byte {
	return object(
		member{"why", quote(u.why)},
		member{"encoding", quote(u.encoding)},
		member{"data", quote(u.data)},
		member{"bytes", integer(int64(u.bytes))},
	)
}

// carry decides how foreign JSON travels: as it stands (the first result, nil
// for none), or as its exact bytes (the second, nil if the first stands). It
// never fails, because hostile evidence must not stop a receipt.
func carry(raw json.RawMessage) (json.RawMessage, *unportable) {
	if len(raw) == 0 {
		return nil, nil
	}
	if len(raw) > maxEvidence {
		sum := sha256.Sum256(raw)
		return nil, &unportable{why: "too large", encoding: "sha256", data: hex.EncodeToString(sum[:]), bytes: len(raw)}
	}
	canon, why := portable(raw)
	if why == "" {
		return canon, nil
	}
	if plainText(raw) {
		return nil, &unportable{why: why, encoding: "utf-8", data: string(raw), bytes: len(raw)}
	}
	return nil, &unportable{why: why, encoding: "base64", data: base64.StdEncoding.EncodeToString(raw), bytes: len(raw)}
}

// portable returns the canonical form of raw, or why that form would not say
// the same: a rounded number is another number.
func portable(raw []byte) (canon []byte, why string) {
	canon, err := canonical.Transform(raw)
	if err != nil {
		return nil, "not portable JSON"
	}
	before, after := inspect(raw), inspect(canon)
	switch {
	case before.members != after.members:
		return nil, "duplicate member names"
	case before.depth > maxEvidenceDepth:
		return nil, "nested too deep"
	case before.inexact:
		return nil, "a number that a double cannot hold"
	case after.surrogate:
		return nil, "a lone surrogate"
	}
	return canon, ""
}

// plainText reports whether a reader can see raw as it is in a JSON string.
func plainText(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	for _, b := range raw {
		if b < 0x20 && b != '\n' && b != '\r' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
