package canonical

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const resourcePrefix = "heart:resource:"

// DeterministicResourceID returns the id of the one run that may exist for a
// resource: heart:resource:<digest of {kind, key}>. It is that run's
// idempotency key.
func DeterministicResourceID(kind, key string) (string, error) {
	switch {
	case kind == "":
		return "", errors.New("resource id: kind is empty")
	case key == "":
		return "", errors.New("resource id: key is empty")
	case !utf8.ValidString(kind):
		return "", errors.New("resource id: kind is not valid UTF-8")
	case !utf8.ValidString(key):
		return "", errors.New("resource id: key is not valid UTF-8")
	}
	d, err := SumValue(map[string]string{"kind": kind, "key": key})
	if err != nil {
		return "", fmt.Errorf("resource id: %w", err)
	}
	return resourcePrefix + d.Hex(), nil
}

// ResourceRunID returns the run id that belongs to an id made by
// [DeterministicResourceID]: a UUID of version 8 (RFC 9562) whose other bits
// are the first 128 bits of the digest.
func ResourceRunID(id string) (string, error) {
	digits, ok := strings.CutPrefix(id, resourcePrefix)
	if !ok {
		return "", fmt.Errorf("resource run id: %q does not start with %s", clip(id), resourcePrefix)
	}
	if strings.ContainsRune(digits, ':') {
		return "", errors.New("resource run id: the digest must be bare")
	}
	d, err := ParseDigest(digits)
	if err != nil {
		return "", fmt.Errorf("resource run id: %w", err)
	}
	u := d[:16]
	u[6] = u[6]&0x0f | 0x80 // version 8
	u[8] = u[8]&0x3f | 0x80 // the variant of RFC 9562
	h := hex.EncodeToString(u)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:], nil
}
