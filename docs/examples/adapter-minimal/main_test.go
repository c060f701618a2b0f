package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/host"
	"github.com/pawlworks/pawl/sdk/sdktest"
)

func intent() sdk.Intent {
	return sdk.Intent{RunID: "0190b4f1-8c5e-7000-8000-000000000001", EffectKey: "drop:greeting", Payload: []byte("hello\n")}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFileAppearsOnceHoweverOftenItIsSent(t *testing.T) {
	dir := t.TempDir()
	h := sdktest.New(t, adapter(), map[string]string{"directory": dir})
	token, err := h.IdempotencyToken(t.Context(), sdk.TokenRequest{Intent: intent(), Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := sdk.Attempt{Intent: intent(), Number: 1, Tokens: []sdk.Token{token}}
	if f, err := h.Probe(t.Context(), a); err != nil || f.Kind != sdk.FindingAbsentForGood {
		t.Errorf("probe before: %+v, %v", f, err)
	}
	for range 2 {
		if o, err := h.Send(t.Context(), a); err != nil || o.Kind != sdk.OutcomeDelivered || o.Evidence.ID != string(token.Data) {
			t.Errorf("send: %+v, %v", o, err)
		}
	}
	if f, err := h.Probe(t.Context(), a); err != nil || f.Kind != sdk.FindingSent || f.Match != sdk.MatchExact {
		t.Errorf("probe after: %+v, %v", f, err)
	}
	if found := files(t, dir); len(found) != 1 {
		t.Errorf("found %v, want one file", found)
	}
}

func TestNothingAppearsWhenBeginRefuses(t *testing.T) {
	for name, step := range map[string]func(*sdktest.Host){
		"engine gone":        func(h *sdktest.Host) { h.CutLifeline() },
		"too late":           func(h *sdktest.Host) { h.OnBegin(func(string) error { h.Advance(time.Hour); return nil }) },
		"record not written": func(h *sdktest.Host) { h.OnBegin(func(string) error { return errors.New("pipe full") }) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h := sdktest.New(t, adapter(), map[string]string{"directory": dir})
			step(h)
			_, err := h.Send(t.Context(), sdk.Attempt{Intent: intent(), Tokens: []sdk.Token{{Version: 1, Data: []byte("t")}}})
			if !sdk.ProvenNotSent(err) || len(files(t, dir)) != 0 {
				t.Errorf("%v, found %v", err, files(t, dir))
			}
		})
	}
}

func TestAbsenceIsNotReadFromADirectoryThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	h := sdktest.New(t, adapter(), map[string]string{"directory": dir})
	if f, _ := h.Probe(t.Context(), sdk.Attempt{Tokens: []sdk.Token{{Data: []byte("t")}}}); f.Kind != sdk.FindingUnknown {
		t.Errorf("got %s, want unknown", f.Kind)
	}
}

func TestWrongConfigurationIsNamed(t *testing.T) {
	if _, err := sdktest.Try(t, adapter(), map[string]string{"directory": "here"}); err == nil {
		t.Error("a relative directory was accepted")
	}
}

// The same adapter, built and run as the process that it is.
func TestBuiltAdapterRunsUnderTheEnginesHost(t *testing.T) {
	base, err := os.MkdirTemp("", "pm")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	program := filepath.Join(base, "adapter")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if out, err := exec.Command(program, "describe").Output(); err != nil || !bytes.Contains(out, []byte(`"kind": "drop"`)) {
		t.Errorf("describe: %v\n%s", err, out)
	}
	a, err := host.Launch(t.Context(), host.Options{
		Name: "drop/test", Path: program, Config: []byte(`{"directory": "` + base + `/out"}`), Dir: base + "/h",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close(context.Background()) }()
	attempt := sdk.Attempt{Intent: intent(), Number: 1, Tokens: []sdk.Token{{Version: 1, Data: []byte("t")}}, NotAfter: time.Now().Add(time.Minute)}
	if _, err := a.Send(t.Context(), attempt); !sdk.ProvenNotSent(err) {
		t.Errorf("without the directory: %v", err)
	}
	if err := os.Mkdir(base+"/out", 0o700); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Send(t.Context(), attempt); err != nil || o.Kind != sdk.OutcomeDelivered {
		t.Errorf("send: %+v, %v", o, err)
	}
	if content, err := os.ReadFile(base + "/out/t"); err != nil || string(content) != "hello\n" {
		t.Errorf("%q, %v", content, err)
	}
}
