package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asAdapter makes the test binary an adapter.
const asAdapter = "PAWL_SDK_TEST_ADAPTER"

func TestMain(m *testing.M) {
	if os.Getenv(asAdapter) != "" {
		os.Exit(Main(exampleAdapter()))
	}
	os.Exit(m.Run())
}

func exampleAdapter() Adapter {
	return Adapter{
		Sheet:         Sheet{Kind: "note", Version: "1.2.3", Token: TokenDerived, Begin: true, SettleTime: Duration(2 * time.Minute)},
		New:           func(context.Context, json.RawMessage) (Channel, error) { return nil, nil },
		ConfigExample: json.RawMessage(`{"path":"/var/notes"}`),
	}
}

func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), asAdapter+"=1")
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

func TestDescribePrintsTheSheetWithoutConfigurationOrEngine(t *testing.T) {
	stdout, stderr, code := run(t, "describe")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, %s", code, stderr)
	}
	var got description
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if got.Sheet.Kind != "note" || got.Sheet.SettleTime.D() != 2*time.Minute || got.SDKVersion != Version || got.Protocol.Major != ProtocolMajor {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(stdout, `"settle_time": "2m0s"`) || !strings.Contains(stdout, "/var/notes") {
		t.Errorf("got\n%s", stdout)
	}
}

func TestPersonWhoRunsAnAdapterIsToldWhatItIs(t *testing.T) {
	stdout, stderr, code := run(t)
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "Pawl adapter") || !strings.Contains(stderr, "describe") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if stdout, _, code := run(t, "--help"); code != exitOK || !strings.Contains(stdout, `kind "note"`) {
		t.Errorf("help: code %d, %q", code, stdout)
	}
}

func TestAdapterThatWasNotStartedByAnEngineSaysSo(t *testing.T) {
	t.Setenv("PAWL_ADAPTER_COOKIE", "6f0d6a0ce1c94b8ea4a7b0b5c79a1f3e27b1d6a95c0e4d3f8f2d5e6a9b7c4810")
	_, stderr, code := run(t)
	if code != exitFault || !strings.Contains(stderr, "descriptor 3") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestWrongDeclarationNamesEveryFault(t *testing.T) {
	err := Adapter{Sheet: Sheet{Kind: "Not-Good", PayloadSchema: json.RawMessage("{")}, ConfigSchema: json.RawMessage("x")}.Validate()
	for _, name := range []string{"Sheet.Kind", "Sheet.Version", "New is nil", "Sheet.PayloadSchema", "ConfigSchema"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if err := exampleAdapter().Validate(); err != nil {
		t.Error(err)
	}
}
