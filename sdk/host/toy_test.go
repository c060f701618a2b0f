//go:build linux

package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/host"
)

// patience is a start time-out for tests that are not about it: the machine may be busy.
const patience = 2 * time.Minute

// modeVariable makes the test binary an adapter of the named behaviour.
const modeVariable = "PAWL_TEST_ADAPTER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(runAdapter(mode))
	}
	if mode := os.Getenv(engineVariable); mode != "" {
		os.Exit(runEngine(mode))
	}
	os.Exit(m.Run())
}

// toy is an adapter whose effect is a line in a file.
type toy struct {
	Path     string `json:"path"`
	Password string `json:"password,omitempty"`
	Mode     string `json:"-"`
}

func toySheet() channel.Sheet {
	return channel.Sheet{
		Kind: "toy", Version: "1.0.0", Token: channel.TokenDerived, Replay: channel.ReplayNever,
		Probe: channel.ProbeExact, Begin: true,
	}
}

func (t *toy) IdempotencyToken(_ context.Context, r channel.TokenRequest) (channel.Token, error) {
	return channel.Token{Version: r.Version, Data: []byte(r.Intent.RunID + "/" + r.Intent.EffectKey)}, nil
}

func (t *toy) effect(a channel.Attempt) error {
	file, err := os.OpenFile(t.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s\n", a.Token().Data)
	return err
}

func (t *toy) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	if behave, ok := behaviours[t.Mode]; ok && behave.send != nil {
		return behave.send(ctx, t, a)
	}
	if err := a.Begin(); err != nil {
		return channel.Outcome{}, err
	}
	if err := t.effect(a); err != nil {
		return channel.Outcome{}, err
	}
	return channel.Delivered(channel.Evidence{ID: "line"}), nil
}

func (t *toy) Probe(_ context.Context, a channel.Attempt) (channel.Finding, error) {
	content, err := os.ReadFile(t.Path)
	if err != nil && !os.IsNotExist(err) {
		return channel.Finding{}, err
	}
	if string(content) != "" {
		return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "line"}), nil
	}
	return channel.AbsentNow("no line", true), nil
}

func toyAdapter(mode string) sdk.Adapter {
	return sdk.Adapter{
		Sheet: toySheet(),
		New: func(_ context.Context, config json.RawMessage) (channel.Channel, error) {
			t := &toy{Mode: mode}
			if err := json.Unmarshal(config, t); err != nil {
				return nil, err
			}
			return t, nil
		},
	}
}

// behaviour is what one hostile adapter does.
type behaviour struct {
	send func(context.Context, *toy, channel.Attempt) (channel.Outcome, error)
	main func() int
}

func runAdapter(mode string) int {
	if b, ok := behaviours[mode]; ok && b.main != nil {
		return b.main()
	}
	return sdk.Serve(toyAdapter(mode), os.Args[1:])
}

func TestAdapterProcessMakesTheEffectOnce(t *testing.T) {
	a, path := launch(t, "good", nil)
	ctx := context.Background()
	if got := a.Sheet(); got.Kind != "toy" || !got.Begin {
		t.Fatalf("sheet: %+v", got)
	}
	token, err := a.IdempotencyToken(ctx, channel.TokenRequest{Intent: intent(), Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	attempt := channel.Attempt{Intent: intent(), Number: 1, Tokens: []channel.Token{token}, NotAfter: time.Now().Add(time.Minute)}
	outcome, err := a.Send(ctx, attempt)
	if err != nil || outcome.Kind != channel.OutcomeDelivered || outcome.Evidence.ID != "line" {
		t.Fatalf("send: %+v, %v", outcome, err)
	}
	if content, _ := os.ReadFile(path); string(content) != string(token.Data)+"\n" {
		t.Fatalf("the effect is %q", content)
	}
	finding, err := a.Probe(ctx, attempt)
	if err != nil || finding.Kind != channel.FindingSent || finding.Match != channel.MatchExact {
		t.Fatalf("probe: %+v, %v", finding, err)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(ctx, attempt); !channel.ProvenNotSent(err) {
		t.Fatalf("send after close: %v, want proof that nothing was sent", err)
	}
}

func intent() channel.Intent {
	return channel.Intent{RunID: "0190b4f1-8c5e-7000-8000-000000000001", EffectKey: "toy:one", Kind: "toy", Channel: "toy/test", Payload: []byte(`{}`)}
}

func launch(t *testing.T, mode string, adjust func(*host.Options)) (*host.Adapter, string) {
	t.Helper()
	options, path := optionsFor(t, mode)
	if adjust != nil {
		adjust(&options)
	}
	a, err := host.Launch(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return a, path
}

func optionsFor(t *testing.T, mode string) (host.Options, string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pt") // short: sockets live below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := dir + "/effects"
	config, err := json.Marshal(toy{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return host.Options{
		Name: "toy/test", Path: program, Config: config, Env: map[string]string{modeVariable: mode}, Dir: dir + "/h",
		BeginProven: true, Logger: testLogger(t), GracePeriod: 2 * time.Second,
		StartTimeout: patience,
	}, path
}
