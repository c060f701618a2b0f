package sdktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/sdktest"
)

// note is a channel whose outside world is a slice.
type note struct{ written []string }

func (n *note) IdempotencyToken(_ context.Context, r sdk.TokenRequest) (sdk.Token, error) {
	return sdk.Token{Data: []byte(r.Intent.RunID + r.Intent.EffectKey)}, nil
}

func (n *note) Send(_ context.Context, a sdk.Attempt) (sdk.Outcome, error) {
	if err := a.Begin(); err != nil {
		return sdk.Outcome{}, err
	}
	n.written = append(n.written, string(a.Token().Data))
	return sdk.Delivered(sdk.Evidence{ID: "1"}), nil
}

func (n *note) Probe(context.Context, sdk.Attempt) (sdk.Finding, error) {
	return sdk.UnknownFinding("notes cannot be read"), nil
}

func noteAdapter(n *note) sdk.Adapter {
	return sdk.Adapter{
		Sheet: sdk.Sheet{Kind: "note", Version: "1.0.0", Token: sdk.TokenDerived, Begin: true},
		New:   func(context.Context, json.RawMessage) (sdk.Channel, error) { return n, nil },
	}
}

func TestNothingIsWrittenOnceTheEngineIsGone(t *testing.T) {
	n := &note{}
	h := sdktest.New(t, noteAdapter(n), nil)
	h.CutLifeline()
	if _, err := h.Send(t.Context(), sdk.Attempt{}); !sdk.ProvenNotSent(err) {
		t.Errorf("send without an engine: %v, want proof that nothing was sent", err)
	}
	if len(n.written) != 0 || h.Begins() != 0 {
		t.Errorf("written: %v, begins: %d, want nothing", n.written, h.Begins())
	}
}

func TestNothingIsWrittenWhenTheProcessWasStoppedPastTheNotAfter(t *testing.T) {
	n := &note{}
	h := sdktest.New(t, noteAdapter(n), nil)
	h.OnBegin(func(string) error { h.Advance(time.Hour); return nil })
	if _, err := h.Send(t.Context(), sdk.Attempt{}); !sdk.ProvenNotSent(err) {
		t.Errorf("send past the not-after: %v, want proof that nothing was sent", err)
	}
	if len(n.written) != 0 {
		t.Errorf("written: %v, want nothing", n.written)
	}
}

func TestWhatNewAnswersReachesTheTest(t *testing.T) {
	a := noteAdapter(&note{})
	a.New = func(context.Context, json.RawMessage) (sdk.Channel, error) {
		return nil, errors.New("paper is missing")
	}
	if _, err := sdktest.Try(t, a, map[string]string{"paper": ""}); err == nil || err.Error() != "configure: paper is missing" {
		t.Errorf("got %v", err)
	}
}
