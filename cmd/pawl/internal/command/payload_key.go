package command

import (
	"errors"
	"strings"

	"github.com/pawlworks/pawl/cmd/pawl/internal/api"
	"github.com/pawlworks/pawl/ledger"
)

// payloadKey makes the effect key of a payload whose identity is known. Its faults are named by flags.
func payloadKey(channel string, payload []byte) (string, error) {
	key, err := api.PayloadKey(channel, payload)
	var wrong *ledger.InvalidError
	if !errors.As(err, &wrong) {
		return key, err
	}
	if member, ok := strings.CutPrefix(wrong.Field, "payload."); ok {
		return "", usage("--payload: %s: %s", member, wrong.Reason)
	}
	if wrong.Field == "payload" {
		return "", usage("--payload: %s", wrong.Reason)
	}
	return "", usage("--key %s; see: pawl key --help", wrong.Reason)
}
