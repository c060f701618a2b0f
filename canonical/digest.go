package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Algorithm names the canonical form and the hash together. It is the prefix
// of a stamped digest.
const Algorithm = "sha256:dreamnet-sorted-json:v0"

// Digest is the SHA-256 of a canonical form.
type Digest [sha256.Size]byte

// Hex returns the bare form: 64 lower-case hexadecimal digits.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Stamped returns the bare form behind [Algorithm] and a colon.
func (d Digest) Stamped() string { return Algorithm + ":" + d.Hex() }

// String is Stamped, so that a printed digest says what it is.
func (d Digest) String() string { return d.Stamped() }

// Sum returns the digest of the canonical form of one JSON value, without
// building that form in memory. A refused text gives a [*SyntaxError].
func Sum(raw []byte) (Digest, error) {
	s := sink{raw: raw, buf: make([]byte, 0, min(len(raw), chunk)+64), stream: true}
	if err := s.write(); err != nil {
		return Digest{}, err
	}
	return s.sum(), nil
}

// SumExact is [Sum] for a text that other programs will read by themselves: it
// also refuses what the canonical form does not tell apart, so that no two
// texts of one digest can mean two things to a reader. That is a name that an
// object has twice (one reader takes the first, one the last, one merges both)
// and a number with more digits than a double keeps.
func SumExact(raw []byte) (Digest, error) {
	s := sink{raw: raw, buf: make([]byte, 0, min(len(raw), chunk)+64), stream: true, exact: true}
	if err := s.write(); err != nil {
		return Digest{}, err
	}
	return s.sum(), nil
}

// SumValue returns the digest of what [Marshal] writes for v.
func SumValue(v any) (Digest, error) {
	text, err := encode(v)
	if err != nil {
		return Digest{}, err
	}
	d, err := Sum(text)
	if err != nil {
		return Digest{}, fromValue(err)
	}
	return d, nil
}

// SumBytes returns the digest of bytes that are a canonical form already. It
// does not check that they are.
func SumBytes(canonicalForm []byte) Digest { return sha256.Sum256(canonicalForm) }

// ParseDigest reads a bare or a stamped digest. Digits must be lower case:
// digests are compared as text elsewhere. A stamp of another algorithm is
// refused, never read as if it were ours.
func ParseDigest(s string) (Digest, error) {
	digits := s
	if cut := strings.LastIndexByte(s, ':'); cut >= 0 {
		if s[:cut] != Algorithm {
			return Digest{}, fmt.Errorf("parse digest: algorithm %q is not %s", clip(s[:cut]), Algorithm)
		}
		digits = s[cut+1:]
	}
	var d Digest
	if len(digits) != hex.EncodedLen(len(d)) {
		return Digest{}, fmt.Errorf("parse digest: %d characters instead of %d", len(digits), hex.EncodedLen(len(d)))
	}
	if strings.ToLower(digits) != digits {
		return Digest{}, fmt.Errorf("parse digest: hexadecimal digits must be lower case")
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return Digest{}, fmt.Errorf("parse digest: %w", err)
	}
	return d, nil
}

// clip keeps foreign text in an error short.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
