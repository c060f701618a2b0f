package file

import (
	"encoding/json"

	"github.com/pawlworks/pawl/sdk"
)

// Adapter is what a program hands to [sdk.Main].
func Adapter() sdk.Adapter {
	return sdk.Adapter{
		Sheet:         Sheet(),
		New:           New,
		ConfigExample: json.RawMessage(`{"path":"/var/lib/example/effects.jsonl"}`),
	}
}
