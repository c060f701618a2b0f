package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/receipt"
)

// world is an outside system in this process: it counts effects by effect key, and can be told what to do with each send.
type world struct {
	mu      sync.Mutex
	effects map[string]int
	sends   map[string]int
	probes  map[string]int
	tokens  int
	// send decides what a send does; nil: it takes effect and is delivered. It is called after Begin.
	send func(a channel.Attempt, n int) (channel.Outcome, error)
	// before is called before Begin.
	before func(ctx context.Context, a channel.Attempt) error
	// probe decides; nil: exact, with negative proof.
	probe func(a channel.Attempt) (channel.Finding, error)
	token func(r channel.TokenRequest) (channel.Token, error)
	sheet channel.Sheet
}

func newWorld(sheet channel.Sheet) *world {
	if sheet.Kind == "" {
		sheet.Kind = "test"
	}
	return &world{effects: map[string]int{}, sends: map[string]int{}, probes: map[string]int{}, sheet: sheet}
}

// exactSheet is a channel with an exact probe and negative proof, and a short settle time.
var exactSheet = channel.Sheet{Kind: "test", Token: channel.TokenDerived, Probe: channel.ProbeExact, NegativeProof: true, Begin: true,
	SettleTime: channel.Duration(50 * time.Millisecond)}

func (w *world) Sheet() channel.Sheet { return w.sheet }

func (w *world) IdempotencyToken(_ context.Context, r channel.TokenRequest) (channel.Token, error) {
	w.mu.Lock()
	w.tokens++
	w.mu.Unlock()
	if w.token != nil {
		return w.token(r)
	}
	return channel.Token{Data: []byte(r.Intent.RunID + r.Intent.EffectKey)}, nil
}

// happen makes the effect.
func (w *world) happen(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects[key]++
}

func (w *world) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	key := a.Intent.EffectKey
	w.mu.Lock()
	w.sends[key]++
	n := w.sends[key]
	w.mu.Unlock()
	if w.before != nil {
		if err := w.before(ctx, a); err != nil {
			return channel.Outcome{}, err
		}
	}
	if !time.Now().Before(a.NotAfter) {
		return channel.Outcome{}, channel.NotSent(errors.New("after the not-after"))
	}
	if w.send != nil {
		return w.send(a, n)
	}
	w.happen(key)
	return channel.Delivered(channel.Evidence{ID: "id-" + key}), nil
}

func (w *world) Probe(_ context.Context, a channel.Attempt) (channel.Finding, error) {
	key := a.Intent.EffectKey
	w.mu.Lock()
	w.probes[key]++
	n := w.effects[key]
	w.mu.Unlock()
	if w.probe != nil {
		return w.probe(a)
	}
	if n > 0 {
		return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "id-" + key}), nil
	}
	return channel.AbsentForGood("not there"), nil
}

func (w *world) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects[key]
}

func (w *world) sent(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sends[key]
}

// quick is a policy with times for tests.
func quick() core.Policy {
	return core.Policy{
		Unknown: core.UnknownHold, SendTimeout: slowness * 400 * time.Millisecond, CommitBound: slowness * 300 * time.Millisecond,
		Margin: slowness * 50 * time.Millisecond, FenceTTL: slowness * 900 * time.Millisecond, ProbeTimeout: slowness * time.Second,
		BackoffFirst: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
		ProbeEvery: 30 * time.Millisecond, HeldEvery: slowness * 50 * time.Millisecond, HeldMax: slowness * 200 * time.Millisecond,
	}
}

// bench is one ledger with a world.
type bench struct {
	t      *testing.T
	ledger ledger.Ledger
	world  *world
	path   string
	runID  string
	keys   *receipt.KeyRing
	signer ledger.Signer
}

func newBench(t *testing.T, w *world) *bench { return newBenchSigned(t, w, nil) }

// newBenchSigned has a signer that may be wrapped.
func newBenchSigned(t *testing.T, w *world, wrap func(ledger.Signer) ledger.Signer) *bench {
	t.Helper()
	b := &bench{t: t, world: w, path: filepath.Join(t.TempDir(), "ledger.db"), runID: uuid.NewString()}
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if b.signer, err = receipt.NewIssuer(receipt.Options{Name: "organism:test:main", Key: key}); err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		b.signer = wrap(b.signer)
	}
	if b.keys, err = receipt.NewKeyRing(key.Public()); err != nil {
		t.Fatal(err)
	}
	empty, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	b.ledger = b.open()
	return b
}

// migrated is a new ledger's file. It is made once: migrating is most of the work of a small test.
var migrated = sync.OnceValues(func() (file []byte, err error) {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "ledger.db")
	if _, err := sqlite.Migrate(context.Background(), sqlite.Options{Path: path}); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// open opens the bench's ledger, once more.
func (b *bench) open() ledger.Ledger {
	b.t.Helper()
	l, err := sqlite.Open(b.t.Context(), sqlite.Options{Path: b.path, Signer: b.signer, Logger: slog.New(slog.NewTextHandler(b.t.Output(), nil))})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return l
}

type option func(*core.Options, *core.ChannelOptions)

func withPolicy(change func(*core.Policy)) option {
	return func(_ *core.Options, c *core.ChannelOptions) { change(&c.Policy) }
}

// engine makes an engine on the bench; start runs it until the test ends.
func (b *bench) engine(options ...option) *core.Engine {
	b.t.Helper()
	o := core.Options{
		Ledger: b.ledger, PollEvery: slowness * 10 * time.Millisecond, HeartbeatEvery: slowness * 50 * time.Millisecond, HeartbeatTimeout: time.Minute,
		ClockAllowance: 20 * time.Millisecond, StopGrace: 5 * time.Second, ScanEvery: slowness * 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
	}
	c := core.ChannelOptions{Name: "test/one", Channel: b.world, Policy: quick()}
	for _, f := range options {
		f(&o, &c)
	}
	o.Channels = append([]core.ChannelOptions{c}, o.Channels...)
	e, err := core.New(b.t.Context(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// start runs the engine and returns how to stop it and wait for its end.
func (b *bench) start(e *core.Engine) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					b.t.Errorf("the engine ended with %v", err)
				}
			case <-time.After(slowness * 20 * time.Second):
				b.t.Error("the engine did not stop")
			}
		})
	}
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) claim(name string, change ...func(*ledger.Claim)) ledger.Claim {
	b.t.Helper()
	payload, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := canonical.Key("test", name)
	if err != nil {
		b.t.Fatal(err)
	}
	c := ledger.Claim{RunID: b.runID, EffectKey: key, Channel: "test/one", Payload: payload}
	for _, f := range change {
		f(&c)
	}
	return c
}

// claimed claims and returns the key.
func (b *bench) claimed(e *core.Engine, c ledger.Claim) ledger.Key {
	b.t.Helper()
	r, err := e.Claim(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return r[0].Key
}

// ended waits until the intent has ended or is held.
func (b *bench) ended(e *core.Engine, k ledger.Key) ledger.Intent {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), slowness*15*time.Second)
	defer cancel()
	i, err := e.Wait(ctx, k)
	if err != nil {
		b.t.Fatalf("wait: %v; the intent is %s: %s", err, i.State, i.LastError)
	}
	return i
}

// until waits for a condition on the row.
func (b *bench) until(k ledger.Key, what string, ok func(ledger.Intent) bool) ledger.Intent {
	b.t.Helper()
	deadline := time.Now().Add(slowness * 15 * time.Second)
	for {
		i, _, err := b.ledger.Intent(b.t.Context(), k)
		if err == nil && ok(i) {
			return i
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not %s in time: %s is %s (%s) after %d starts: %s, %v", what, k, i.State, i.Outcome(), i.Starts, i.LastError, err)
		}
		time.Sleep(5 * time.Millisecond) // polling a database: there is no event to wait for
	}
}

func (b *bench) wantEffects(key string, want int) {
	b.t.Helper()
	if got := b.world.count(key); got != want {
		b.t.Fatalf("%d effects in the outside world, want %d", got, want)
	}
}

// wantReceipt checks that the intent has one good receipt of the outcome.
func (b *bench) wantReceipt(k ledger.Key, outcome receipt.Outcome) {
	b.t.Helper()
	all, err := b.ledger.ReceiptsOf(b.t.Context(), k)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range all {
		if r.Outcome == outcome {
			if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: b.keys}); !v.OK {
				b.t.Fatalf("the receipt does not verify: %s", v)
			}
			return
		}
	}
	b.t.Fatalf("no receipt of %s among %d", outcome, len(all))
}
