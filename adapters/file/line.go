package file

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// header is the first line of a file.
type header struct {
	Pawl  string    `json:"pawl"` // always headerMark
	Since time.Time `json:"since"`
}

const headerMark = "effects"

// line is one effect. The token comes first, so that a search need not parse lines.
type line struct {
	Token         string `json:"token"`
	RunID         string `json:"run_id"`
	EffectKey     string `json:"effect_key"`
	Channel       string `json:"channel"`
	PayloadDigest string `json:"payload_digest"`
	// Payload is the payload as it was claimed; PayloadBase64 takes its place if it is not JSON.
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
}

// tokenOf is the token of an intent: a hash of its identity.
func tokenOf(i channel.Intent) string {
	hash := sha256.New()
	for _, part := range []string{"pawl file v1", i.RunID, i.EffectKey} {
		// Lengths keep ("ab", "c") and ("a", "bc") apart.
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part)))
		_, _ = hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// linePrefix is what the line of a token begins with.
func linePrefix(token string) string { return `{"token":"` + token + `",` }

func formatLine(token string, i channel.Intent) ([]byte, error) {
	l := line{Token: token, RunID: i.RunID, EffectKey: i.EffectKey, Channel: i.Channel, PayloadDigest: i.PayloadDigest}
	if json.Valid(i.Payload) {
		l.Payload = i.Payload // Marshal compacts it: no line feed survives
	} else {
		l.PayloadBase64 = base64.StdEncoding.EncodeToString(i.Payload)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
