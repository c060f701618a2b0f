package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/core/crashtest"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk"
)

// envScene tells the test binary that it is a victim, and of what.
const envScene = "PAWL_CRASHTEST_SCENE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envAdapter); dir != "" {
		os.Exit(sdk.Serve(adapterOf(dir), nil))
	}
	if text := os.Getenv(envScene); text != "" {
		if err := victim(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// scene is one world: a ledger, an outside system that is a file, and what the victim does in it.
type scene struct {
	Backend string
	At      string // the ledger
	Dir     string
	Class   class
	Act     act
	RunID   string
}

type class string

const (
	exactProbe class = "exact probe" // counted by lines
	replaySafe class = "replay-safe" // the world deduplicates by token
)

type act string

const (
	actSend      act = "claim and send"
	actReconcile act = "reconcile" // an ambiguous attempt that took effect
	actResend    act = "resend"    // an ambiguous attempt that did not
)

func victim(text string) error {
	var s scene
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	points, err := crashtest.FromEnvironment()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := s.open(ctx, points)
	if err != nil {
		return err
	}
	e, err := s.engine(ctx, l, &fileWorld{dir: s.Dir, class: s.Class, points: points})
	if err != nil {
		return err
	}
	if s.Act == actSend {
		b, err := backendNamed(s.Backend)
		if err != nil {
			return err
		}
		if err := b.change(ctx, s.At, l, s.claim(), points); err != nil {
			return err
		}
		_, err = e.Do(ctx, s.claim())
		return err
	}
	// Until it is settled: an absence counts only after its time.
	for ctx.Err() == nil {
		if _, err := e.ReconcileOnce(ctx); err != nil {
			return err
		}
		i, _, err := l.Intent(ctx, s.key())
		if err != nil {
			return err
		}
		if i.State == ledger.StateCommitted || i.State == ledger.StateIntent {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errStillOpen
}

func (s scene) open(ctx context.Context, points *crashtest.Points) (ledger.Ledger, error) {
	b, err := backendNamed(s.Backend)
	if err != nil {
		return nil, err
	}
	key, err := receipt.LoadOrCreateKey(filepath.Join(s.Dir, "receipt.key"))
	if err != nil {
		return nil, err
	}
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "organism:crashtest:main", Key: key})
	if err != nil {
		return nil, err
	}
	return b.open(ctx, s.At, issuer, points)
}

func (s scene) claim() ledger.Claim {
	key, err := canonical.Key("world", map[string]string{"scene": s.RunID})
	if err != nil {
		panic(err) // a map of strings has a key
	}
	return ledger.Claim{RunID: s.RunID, EffectKey: key, Channel: s.channel(), Payload: []byte(`{"say":"hello"}`)}
}

func (s scene) channel() string { return "world/" + s.RunID }

func (s scene) key() ledger.Key { return ledger.Key{RunID: s.RunID, EffectKey: s.claim().EffectKey} }

// engine has times that are short, but not so short that a slow machine loses a fence.
func (s scene) engine(ctx context.Context, l ledger.Ledger, w *fileWorld) (*core.Engine, error) {
	return s.engineWith(ctx, l, w, 2*time.Second)
}

// engineWith takes the life of a fence: a victim that dies leaves one behind, which has to be waited for.
func (s scene) engineWith(ctx context.Context, l ledger.Ledger, w *fileWorld, fence time.Duration) (*core.Engine, error) {
	sheet := channel.Sheet{Kind: "world", Token: channel.TokenDerived, Begin: true, SettleTime: channel.Duration(20 * time.Millisecond)}
	if s.Class == replaySafe {
		sheet.Replay = channel.ReplayForEver
	} else {
		sheet.Probe, sheet.NegativeProof = channel.ProbeExact, true
	}
	return core.New(ctx, core.Options{
		Ledger: l, PollEvery: 20 * time.Millisecond, ClockAllowance: 20 * time.Millisecond, HeartbeatEvery: 100 * time.Millisecond,
		HeartbeatTimeout: time.Hour, ScanEvery: 100 * time.Millisecond, OwedEvery: 100 * time.Millisecond,
		Channels: []core.ChannelOptions{{
			Name: s.channel(), Channel: w, Sheet: &sheet,
			Policy: core.Policy{Unknown: core.UnknownHold, SendTimeout: 400 * time.Millisecond, CommitBound: 300 * time.Millisecond, Margin: 50 * time.Millisecond,
				FenceTTL: fence, ProbeTimeout: 500 * time.Millisecond, BackoffFirst: 5 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
				ProbeEvery: 20 * time.Millisecond, StartCeiling: 1000, AttemptCeiling: 1000},
		}},
	})
}

// fileWorld is an outside system in a file: one line for each effect that reached it.
type fileWorld struct {
	dir    string
	class  class
	points *crashtest.Points
	// lose makes the first send answer nothing: with "effect" it took effect, with "none" it did not.
	lose string
}

func (w *fileWorld) path() string { return filepath.Join(w.dir, "effects") }

func (w *fileWorld) hit(name string) {
	if w.points != nil {
		w.points.Hit(name)
	}
}

func (w *fileWorld) IdempotencyToken(_ context.Context, r channel.TokenRequest) (channel.Token, error) {
	return channel.Token{Data: []byte("token of " + r.Intent.EffectKey)}, nil
}

func (w *fileWorld) Send(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
	w.hit("before the not-after is read")
	if !time.Now().Before(a.NotAfter) {
		return channel.Outcome{}, channel.NotSent(errors.New("after the not-after"))
	}
	w.hit("before the effect")
	if w.lose != "none" {
		if err := w.write(a.Token().Data); err != nil {
			return channel.Outcome{}, err
		}
	}
	w.hit("after the effect")
	if w.lose != "" {
		return channel.Outcome{}, channel.Ambiguous("answer", io.ErrUnexpectedEOF)
	}
	return channel.Delivered(channel.Evidence{ID: string(a.Token().Data)}), nil
}

func (w *fileWorld) write(token []byte) error {
	f, err := os.OpenFile(w.path(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(token, '\n'))
	return errors.Join(err, f.Close())
}

func (w *fileWorld) Probe(_ context.Context, a channel.Attempt) (channel.Finding, error) {
	w.hit("before the probe")
	n, err := w.count()
	w.hit("after the probe")
	if err != nil {
		return channel.Finding{}, err
	}
	if n > 0 {
		return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: string(a.Token().Data)}), nil
	}
	return channel.AbsentForGood("not in the file"), nil
}

// count is the independent count: lines, or, where the world deduplicates, different tokens.
func (w *fileWorld) count() (int, error) {
	raw, err := os.ReadFile(w.path())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if w.class != replaySafe {
		return len(lines), nil
	}
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l] = true
	}
	return len(seen), nil
}
