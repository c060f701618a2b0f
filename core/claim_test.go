package core_test

import (
	"testing"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

// TestKeyNamesItsEffectWhateverTheChannel: run and key are the whole identity. Whoever wants the same on two channels puts the channel
// into the key.
func TestKeyNamesItsEffectWhateverTheChannel(t *testing.T) {
	t.Parallel()
	b := newBench(t, newWorld(exactSheet))
	b.engine()
	b.engine(func(_ *core.Options, c *core.ChannelOptions) { c.Name = "test/two" })
	one := b.claim("effect")
	two := one
	two.Channel = "test/two"
	otherRun := one
	otherRun.RunID = "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10"
	for _, c := range []struct {
		claim  ledger.Claim
		status ledger.ClaimStatus
	}{{one, ledger.ClaimNew}, {two, ledger.ClaimDeduplicated}, {otherRun, ledger.ClaimNew}} {
		r, err := core.Claim(t.Context(), b.ledger, c.claim)
		if err != nil || r[0].Status != c.status || r[0].Intent.Channel != "test/one" {
			t.Errorf("on %s in run %s: %+v, %v; want %s, on test/one", c.claim.Channel, c.claim.RunID, r, err, c.status)
		}
	}
}
