package smtp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlworks/pawl/core/channel"
)

// identity is a hash of what an intent is: run and effect key. Hex, so that no mail server or search mangles it.
func identity(i channel.Intent) string {
	hash := sha256.New()
	for _, part := range []string{"pawl mail v1", i.RunID, i.EffectKey} {
		// Lengths keep ("ab", "c") and ("a", "bc") apart.
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part)))
		_, _ = hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// messageID is the Message-ID of an intent's mail, without angle brackets.
func messageID(i channel.Intent, domain string) string { return identity(i) + "@" + domain }

// hint is what is stored beside the message: its envelope, and the name to look for.
type hint struct {
	MessageID string `json:"message_id"`
	From      string `json:"from"`
	To        string `json:"to"`
	UTF8      bool   `json:"smtputf8,omitempty"`
}

func readHint(t channel.Token) (hint, error) {
	var h hint
	if err := json.Unmarshal(t.Hint, &h); err != nil {
		return h, fmt.Errorf("token version %d has no readable hint: %w", t.Version, err)
	}
	if h.MessageID == "" || h.From == "" || h.To == "" {
		return h, fmt.Errorf("the hint of token version %d is not complete", t.Version)
	}
	return h, nil
}

// names returns all Message-IDs that the intent's mail may carry: those of its stored tokens, and the one that would
// be made now (a token may have been lost with the ledger).
func (c *Config) names(a channel.Attempt) []string {
	var ids []string
	for _, t := range a.Tokens {
		if h, err := readHint(t); err == nil && !slices.Contains(ids, h.MessageID) {
			ids = append(ids, h.MessageID)
		}
	}
	if id := messageID(a.Intent, c.Domain); !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}
