package core

import (
	"testing"

	"github.com/pawlworks/pawl/ledger"
)

// A look that reopens an intent wakes the dispatcher, which may have the intent again before the look has ended.
func TestEndOfALookLeavesTheSendThatItSetGoingInFlight(t *testing.T) {
	var f inflight
	k := ledger.Key{RunID: "run", EffectKey: "test:1"}
	if !f.enter(k) {
		t.Fatal("nobody has it, and it cannot be taken")
	}
	f.join(k)  // the dispatcher
	f.leave(k) // the look
	if f.enter(k) {
		t.Error("the engine would look at what it is sending")
	}
	f.leave(k)
	if !f.enter(k) || len(f.keys) != 1 {
		t.Errorf("it is not free when all have left it: %v", f.keys)
	}
}
