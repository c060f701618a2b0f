package file_test

import (
	"path/filepath"
	"testing"

	"github.com/pawlworks/pawl/adapters/file"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/sdktest"
)

func TestOverTheRealWireALineIsSentFoundAndRefusedAfterTheEngineIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	host := sdktest.New(t, file.Adapter(), configOf(path))
	a := attempt(t, host, "one")
	outcome, err := host.Send(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if finding := wantFinding(t, host, a, channel.FindingSent); finding.Evidence.ID != outcome.Evidence.ID {
		t.Fatalf("found %+v, sent %+v", finding.Evidence, outcome.Evidence)
	}
	host.CutLifeline()
	if _, err := host.Send(t.Context(), attempt(t, host, "two")); !channel.ProvenNotSent(err) {
		t.Fatalf("after the engine was gone: %v", err)
	}
	if got := lines(t, path); len(got) != 1 {
		t.Fatalf("the file has %v", got)
	}
}
