package ledger

import (
	"time"

	"github.com/pawlworks/pawl/canonical"
)

// Approval is a decision that was taken elsewhere. The ledger approves nothing: it checks that what was approved is what
// is claimed and sent.
type Approval struct {
	By        string    `json:"by"`
	Reference string    `json:"reference"`
	Until     time.Time `json:"until"` // zero: no end
	// Digest is ApprovalDigest(channel, effect key, payload digest), bare hex.
	Digest string `json:"digest"`
	// Count is how many intents the reference serves. 0 and 1: one.
	Count int `json:"count,omitempty"`
}

// ApprovalDigest is what an approval binds: the bare hex digest of canonical {channel, effectKey, payloadDigest}.
func ApprovalDigest(channelName, effectKey, payloadDigest string) (string, error) {
	d, err := canonical.SumValue(map[string]string{
		"channel": channelName, "effectKey": effectKey, "payloadDigest": payloadDigest,
	})
	if err != nil {
		return "", err
	}
	return d.Hex(), nil
}

// Check says why the approval is not good for this intent at this time; empty if it is.
func (a *Approval) Check(channelName, effectKey, payloadDigest string, now time.Time) string {
	switch want, err := ApprovalDigest(channelName, effectKey, payloadDigest); {
	case err != nil:
		return "the approval cannot be checked: " + err.Error()
	case a.By == "" || a.Reference == "":
		return "the approval names no person or no reference"
	case a.Digest != want:
		return "the approval is for something else: its digest is not that of this channel, key and payload"
	case !a.Until.IsZero() && !now.Before(a.Until):
		return "the approval has run out"
	}
	return ""
}
