package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk"
)

// maybe is a channel whose payload says what becomes of it: {"do":"deliver"|"doubt"|"reject"|"hang"}. It cannot be probed. Every call of Send leaves
// a line in a file.
type maybe struct{ path string }

// Variables that every engine of the tests has. A configuration allows the first.
const (
	allowedVariable = "ALLOWED_FOR_ADAPTER"
	otherVariable   = "OTHER_SECRET"
)

func maybeAdapter() sdk.Adapter {
	return sdk.Adapter{
		Sheet: channel.Sheet{
			Kind: "maybe", Version: "1.0.0", Token: channel.TokenDerived, Replay: channel.ReplayNever, Probe: channel.ProbeNone, Begin: true,
			SettleTime:    channel.Duration(1e6),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["do"],"additionalProperties":false,"properties":{"do":{"enum":["deliver","doubt","reject","hang"]},"n":{"type":"integer"}}}`),
		},
		New: func(_ context.Context, raw json.RawMessage) (channel.Channel, error) {
			var c struct{ Path, Password string }
			if err := json.Unmarshal(raw, &c); err != nil {
				return nil, err
			}
			if c.Path == "" {
				return nil, errors.New("maybe: path is missing")
			}
			// What the adapter sees of the engine's environment, for a script to look at.
			seen := fmt.Sprintf("allowed=%q other=%q\n", os.Getenv(allowedVariable), os.Getenv(otherVariable))
			return maybe{c.Path}, os.WriteFile(c.Path+".env", []byte(seen), 0o600)
		},
	}
}

func (m maybe) IdempotencyToken(_ context.Context, r channel.TokenRequest) (channel.Token, error) {
	return channel.Token{Version: r.Version, Data: []byte(r.Intent.RunID + r.Intent.EffectKey)}, nil
}

func (m maybe) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	var p struct{ Do string }
	if err := json.Unmarshal(a.Intent.Payload, &p); err != nil {
		return channel.Outcome{}, channel.Rejected("", err)
	}
	if err := a.Begin(); err != nil {
		return channel.Outcome{}, channel.NotSent(err)
	}
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return channel.Outcome{}, channel.NotSent(err)
	}
	_, err = fmt.Fprintln(f, p.Do)
	if err = errors.Join(err, f.Close()); err != nil {
		return channel.Outcome{}, channel.Ambiguous("write", err)
	}
	switch p.Do {
	case "deliver":
		return channel.Delivered(channel.Evidence{ID: "maybe-" + a.Intent.EffectKey}), nil
	case "reject":
		return channel.Outcome{}, channel.Rejected("550", errors.New("no such recipient"))
	case "hang":
		<-ctx.Done()
	}
	return channel.Outcome{}, channel.Ambiguous("reply", errors.New("the answer never came"))
}

func (m maybe) Probe(context.Context, channel.Attempt) (channel.Finding, error) {
	return channel.UnknownFinding("cannot be asked"), nil
}
