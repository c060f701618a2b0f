package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

func TestATraceContextIsKeptAndABrokenOneIsDropped(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	claim := ledger.Claim{RunID: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", EffectKey: "mail:a", Channel: "mail", Payload: []byte(`{}`)}
	for name, c := range map[string]struct{ given, want string }{
		"well formed": {good, good}, "none": {"", ""}, "another version": {"01" + good[2:], ""}, "upper case": {strings.ToUpper(good), ""},
		"no trace":   {"00-" + strings.Repeat("0", 32) + good[35:], ""},
		"no span":    {good[:36] + strings.Repeat("0", 16) + "-01", ""},
		"too long":   {good + "-x", ""},
		"line break": {good + "\n", ""},
		"too short":  {good[:54], ""},
		"not hex":    {strings.Replace(good, "4bf9", "4bg9", 1), ""},
		"hostile":    {strings.Repeat("\x00", 1<<16), ""},
	} {
		claim.TraceParent = c.given
		p, err := ledger.Prepare(claim)
		if err != nil {
			t.Errorf("%s: %v; a broken header must not stop an effect", name, err)
			continue
		}
		if got := p.Intent(time.Now()).TraceParent; got != c.want {
			t.Errorf("%s: kept %.80q, want %q", name, got, c.want)
		}
	}
}
