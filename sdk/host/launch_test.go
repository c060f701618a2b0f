//go:build linux

package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/host"
)

// refused launches an adapter that must not start and returns why.
func refused(t *testing.T, options host.Options) *host.LaunchError {
	t.Helper()
	a, err := host.Launch(context.Background(), options)
	if err == nil {
		_ = a.Close(context.Background())
		t.Fatal("the adapter started")
	}
	var failure *host.LaunchError
	if !errors.As(err, &failure) {
		t.Fatalf("untyped: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(options.Dir, "run-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return failure
}

func TestLaunchSaysHowFarItCame(t *testing.T) {
	for _, row := range []struct {
		mode      string
		adjust    func(*host.Options)
		phase     host.State
		is        error
		permanent bool
		text      string
	}{
		{mode: "speaks another version", phase: host.Starting, is: host.ErrProtocol, permanent: true, text: "offers version 9"},
		{mode: "hangs at start", phase: host.Starting, is: context.DeadlineExceeded, text: "no handshake in time"},
		{mode: "panics at start", phase: host.Starting, text: "no home directory"},
		{mode: "ends at start", phase: host.Starting, text: "exit status 7"},
		{mode: "good", phase: host.Configuring, text: "paper", adjust: func(o *host.Options) { o.Config = []byte(`{"path": ["paper"]}`) }},
		{mode: "good", phase: host.Starting, is: host.ErrWrongChecksum, permanent: true, adjust: func(o *host.Options) { o.SHA256 = strings.Repeat("0", 64) }},
		{mode: "good", phase: host.Starting, is: os.ErrNotExist, adjust: func(o *host.Options) { o.Path = "/nowhere/adapter" }},
	} {
		t.Run(row.mode+" "+row.text, func(t *testing.T) {
			t.Parallel()
			options, _ := optionsFor(t, row.mode)
			if row.mode == "hangs at start" {
				options.StartTimeout = 500 * time.Millisecond
			}
			if row.adjust != nil {
				row.adjust(&options)
			}
			failure := refused(t, options)
			if failure.Phase != row.phase || failure.Permanent != row.permanent || row.is != nil && !errors.Is(failure, row.is) {
				t.Errorf("got %+v", failure)
			}
			if row.text != "paper" && !strings.Contains(failure.Error(), row.text) {
				t.Errorf("%q does not say %q", failure, row.text)
			}
		})
	}
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	options, _ := optionsFor(t, "hangs at start")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := host.Launch(ctx, options); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestOptionsNameEveryFaultAtOnce(t *testing.T) {
	_, err := host.Launch(context.Background(), host.Options{
		Path: "relative", SHA256: "abc", Config: []byte("{"), Env: map[string]string{"A=B": ""}, CallTimeout: -1,
	})
	for _, name := range []string{"Name", "Path", "SHA256", "Config", "Env", "CallTimeout"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	_, err = host.Launch(context.Background(), host.Options{Name: "n", Path: "/bin/true", Dir: long})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("long Dir: %v", err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err = host.Launch(context.Background(), host.Options{Name: "n", Path: "/bin/true", Dir: open}); err == nil {
		t.Error("a directory that everybody can write to was accepted")
	}
}

func TestPrintsBeforeTheHandshakeDoNoHarm(t *testing.T) {
	logger, logged := bufferedLogger()
	a, _ := launch(t, "prints before the handshake", func(o *host.Options) { o.Logger = logger })
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "delivered" {
		t.Errorf("got %s", got)
	}
	for _, line := range []string{"Hello from a library!", "no newline at the end of this"} {
		if !strings.Contains(logged.String(), line) {
			t.Errorf("%q is not in the log", line)
		}
	}
}

func TestPinnedProgramThatWasReplacedIsNotStartedAgain(t *testing.T) {
	options, _ := optionsFor(t, "dies before begin")
	options.Path = filepath.Join(filepath.Dir(options.Dir), "program")
	options.SHA256 = copyProgram(t, options.Path)
	a, err := host.Launch(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close(context.Background()) }()
	if a.SHA256() != options.SHA256 {
		t.Errorf("running %s, pinned %s", a.SHA256(), options.SHA256)
	}
	if err := os.Remove(options.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(options.Path, []byte("another program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := said(a.Send(context.Background(), attempt(time.Minute))); got != "not sent" {
		t.Fatalf("got %s", got)
	}
	await(t, "the host rests", func() bool { return a.State() == host.Backoff })
	a.Reset()
	await(t, "the adapter is quarantined", func() bool { return a.State() == host.Quarantined })
	if !errors.Is(a.Err(), host.ErrWrongChecksum) {
		t.Errorf("reason: %v", a.Err())
	}
	_, err = a.Send(context.Background(), attempt(time.Minute))
	var notSent *channel.NotSentError
	if !errors.As(err, &notSent) || !notSent.Configuration {
		t.Errorf("send while quarantined: %v", err)
	}
}

func TestPinnedScriptIsRefused(t *testing.T) {
	options, _ := optionsFor(t, "good")
	script := []byte("#!/bin/sh\nexit 0\n")
	options.Path = filepath.Join(t.TempDir(), "adapter")
	if err := os.WriteFile(options.Path, script, 0o700); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(script)
	options.SHA256 = hex.EncodeToString(sum[:])
	if failure := refused(t, options); !failure.Permanent || !errors.Is(failure, host.ErrScriptPinned) {
		t.Errorf("got %v", failure)
	}
}

func copyProgram(t *testing.T, path string) (digest string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(target, hash), source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func TestRestartedAdapterThatClaimsLessIsQuarantined(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	a, _ := launch(t, "gets weaker", func(o *host.Options) { o.Env["MARKER"] = marker })
	_, _ = a.Send(context.Background(), attempt(time.Minute))
	await(t, "the host rests", func() bool { return a.State() == host.Backoff })
	a.Reset()
	await(t, "the adapter is quarantined", func() bool { return a.State() == host.Quarantined })
	if err := a.Err(); !errors.Is(err, host.ErrWeakerSheet) || !strings.Contains(err.Error(), "begin was true and is false") {
		t.Errorf("reason: %v", err)
	}
}

func TestAdapterSeesOnlyTheEnvironmentItWasGiven(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://u:topsecret@db/x")
	t.Setenv("TZ", "Asia/Tokyo")
	a, _ := launch(t, "tells its environment", func(o *host.Options) {
		o.Env["GIVEN"] = "yes"
		o.Args = nil
	})
	outcome, err := a.Send(context.Background(), attempt(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(outcome.Evidence.Detail, &text); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"GIVEN=yes", "TZ=Asia/Tokyo", "files=0"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("%s is missing in\n%s", wanted, text)
		}
	}
	for _, unwanted := range []string{"DATABASE_URL", "topsecret", "HOME=", "effects"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%s leaked into\n%s", unwanted, text)
		}
	}
}

func TestSecretsReachNoLogAndNoError(t *testing.T) {
	logger, logged := bufferedLogger()
	const secret = `hunter2"<&>`
	a, path := launch(t, "tells its secrets", func(o *host.Options) {
		o.Logger = logger
		o.Config, _ = json.Marshal(toy{Path: o.Dir, Password: secret})
		logger.Info("starting", "options", *o)
	})
	_, err := a.Send(context.Background(), attempt(time.Minute))
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("error: %v", err)
	}
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if text := logged.String(); strings.Contains(text, "hunter2") || strings.Count(text, "[redacted]") < 2 {
		t.Errorf("log of %s:\n%s", path, text)
	}
}
