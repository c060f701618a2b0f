// Command adapter-minimal is a complete channel adapter in one file. Its effect is a file that appears in a directory,
// once. It shows every part that an adapter has; docs/writing-an-adapter.md walks through it.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlworks/pawl/sdk"
)

func main() { os.Exit(sdk.Main(adapter())) }

// adapter declares what the engine may rely on. Claim only what is true on a bad day.
func adapter() sdk.Adapter {
	return sdk.Adapter{
		Sheet: sdk.Sheet{
			Kind:    "drop",
			Version: "1.0.0",
			// The token is a function of the intent, so it can be made again if the ledger is lost.
			Token: sdk.TokenDerived,
			// A file that is there is never written again, whoever tries and however late.
			Replay: sdk.ReplayForEver,
			// The probe looks for the file of this very token, in the directory itself.
			Probe:         sdk.ProbeExact,
			NegativeProof: true,
			Begin:         true,
			// How long after the last possible send a file may still appear: a local disk is quick.
			SettleTime:             sdk.Duration(10 * time.Second),
			EvidenceNamesOneEffect: true,
		},
		New:           open,
		ConfigExample: json.RawMessage(`{"directory": "/var/spool/drop"}`),
	}
}

// drop is the channel. It holds nothing but its configuration: an adapter may be killed at any moment.
type drop struct {
	Directory string `json:"directory"`
}

// open checks the whole configuration and names what is wrong. It does not need the outside system to be up.
func open(_ context.Context, config json.RawMessage) (sdk.Channel, error) {
	d := &drop{}
	if err := json.Unmarshal(config, d); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !filepath.IsAbs(d.Directory) {
		return nil, fmt.Errorf("directory %q is not absolute: give the full path", d.Directory)
	}
	return d, nil
}

// IdempotencyToken names the file. It is pure: no clock, no random value, no network.
func (d *drop) IdempotencyToken(_ context.Context, r sdk.TokenRequest) (sdk.Token, error) {
	sum := sha256.Sum256([]byte(r.Intent.RunID + "\x00" + r.Intent.EffectKey))
	return sdk.Token{Data: []byte(hex.EncodeToString(sum[:]))}, nil
}

func (d *drop) path(t sdk.Token) string { return filepath.Join(d.Directory, string(t.Data)) }

// Send does everything that can fail first, then asks Begin, then takes the one step that makes the effect.
func (d *drop) Send(ctx context.Context, a sdk.Attempt) (sdk.Outcome, error) {
	prepared, err := d.prepare(a.Intent.Payload)
	if err != nil {
		// The directory is at fault, not the intent: Configuration pauses the channel instead of using up attempts.
		return sdk.Outcome{}, &sdk.NotSentError{Configuration: true, Err: fmt.Errorf("prepare the file: %w", err)}
	}
	defer func() { _ = os.Remove(prepared) }()

	if err := a.Begin(); err != nil {
		return sdk.Outcome{}, err // unchanged: it says that nothing was sent
	}
	err = os.Link(prepared, d.path(a.Token()))
	if err != nil && !errors.Is(err, fs.ErrExist) { // there already: made by an earlier attempt, the very same effect
		return sdk.Outcome{}, sdk.Ambiguous("link", err)
	}
	if err := sync(d.Directory); err != nil {
		return sdk.Outcome{}, sdk.Ambiguous("sync", err) // it is there, but a power cut may undo it
	}
	sdk.Logger(ctx).Info("file dropped")
	return sdk.Delivered(sdk.Evidence{ID: string(a.Token().Data)}), nil
}

// prepare writes the payload under a name that nobody looks at.
func (d *drop) prepare(payload []byte) (string, error) {
	file, err := os.CreateTemp(d.Directory, ".preparing-")
	if err != nil {
		return "", err
	}
	_, err = file.Write(payload)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func sync(directory string) error {
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Probe asks the outside system itself, for every version of the token.
func (d *drop) Probe(_ context.Context, a sdk.Attempt) (sdk.Finding, error) {
	if _, err := os.Stat(d.Directory); err != nil {
		return sdk.Finding{}, err // taken as unknown: a directory that is not mounted proves no absence
	}
	for _, token := range a.Tokens {
		_, err := os.Stat(d.path(token))
		if err == nil {
			return sdk.SentFinding(sdk.MatchExact, sdk.Evidence{ID: string(token.Data)}), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return sdk.Finding{}, err
		}
	}
	// The engine knows the clocks; it turns this into "absent now" if it is too early to say.
	return sdk.AbsentForGood("no such file"), nil
}
