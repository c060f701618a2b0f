package api

import (
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Bounds of text that a request brings, in bytes.
const (
	maxBy     = 200
	maxReason = 2000
	maxKey    = 640 // ledger.MaxEffectKey, the shadow prefix, and the number of a redrive
	maxPlain  = 2048
)

// checkText refuses what no database keeps, and what is too long.
func checkText(location, text string, most int) error {
	switch {
	case len(text) > most:
		return invalid(location, "is %d bytes, more than %d", len(text), most)
	case !utf8.ValidString(text):
		return invalid(location, "is not UTF-8")
	}
	for _, r := range text {
		if r == 0 {
			return invalid(location, "holds a NUL character")
		}
	}
	return nil
}

// needText is checkText of what must be there.
func needText(location, text string, most int, missing string) error {
	if text == "" {
		return invalid(location, "is missing: %s", missing)
	}
	return checkText(location, text, most)
}

// runID reads a run's id as the ledger writes it.
func runID(location, text string) (string, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return "", invalid(location, "is not a UUID")
	}
	return id.String(), nil
}

// keyOf reads the key of an intent.
func keyOf(k pawlclient.Key) (ledger.Key, error) {
	run, err := runID("path.run_id", k.RunID)
	if err != nil {
		return ledger.Key{}, err
	}
	if err := needText("path.effect_key", k.EffectKey, maxKey, "name the effect"); err != nil {
		return ledger.Key{}, err
	}
	return ledger.Key{RunID: run, EffectKey: k.EffectKey}, nil
}
