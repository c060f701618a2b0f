package main

import (
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/sdktest"
)

// What the guide shows of the test host.
func TestTheGuidesTestHostRefusesBegin(t *testing.T) {
	h := sdktest.New(t, adapter(), map[string]string{"directory": t.TempDir()})
	h.CutLifeline()                                                    // the engine is gone
	h.OnBegin(func(string) error { h.Advance(time.Hour); return nil }) // the process slept through its not-after
	h.Begins()                                                         // how often the wire may have been touched
	a := sdk.Attempt{Intent: intent(), Number: 1, Tokens: []sdk.Token{{Version: 1, Data: []byte("token")}}}
	if _, err := h.Send(t.Context(), a); err == nil || h.Begins() != 0 {
		t.Errorf("%d begins, %v", h.Begins(), err)
	}
}
