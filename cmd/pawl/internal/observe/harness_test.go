package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/adapters/file"
	"github.com/pawlworks/pawl/cmd/pawl/internal/observe"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/host"
)

// TestMain makes the test binary an adapter where an engine started it.
func TestMain(m *testing.M) {
	if os.Getenv("PAWL_ADAPTER_COOKIE") == "" {
		os.Exit(m.Run())
	}
	end, err := observe.StartAdapter(context.Background(), "adapter", "test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := sdk.Serve(mortal(), nil)
	end()
	os.Exit(code)
}

// mortal is the file adapter; its process dies right after an effect whose payload says so, once.
func mortal() sdk.Adapter {
	a := file.Adapter()
	inner := a.New
	a.New = func(ctx context.Context, config json.RawMessage) (channel.Channel, error) {
		c, err := inner(ctx, config)
		var where struct{ Path string }
		_ = json.Unmarshal(config, &where)
		return dying{c, where.Path + ".died"}, err
	}
	return a
}

type dying struct {
	channel.Channel
	mark string
}

func (d dying) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	o, err := d.Channel.Send(ctx, a)
	if strings.Contains(string(a.Intent.Payload), "die") {
		if f, fresh := os.OpenFile(d.mark, os.O_CREATE|os.O_EXCL, 0o600); fresh == nil {
			_ = f.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	return o, err
}

// locked is a buffer for logs.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *locked) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// place is a ledger, an engine and a file adapter in a process of its own, all of them visible.
type place struct {
	t       *testing.T
	ledger  ledger.Ledger
	engine  *core.Engine
	adapter *host.Adapter
	observe *observe.Observe
	log     *locked
	runID   string
}

const channelName = "file/audit"

func newPlace(t *testing.T, to observe.Tracing) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{t: t, log: &locked{}, runID: uuid.NewString()}
	logger := slog.New(observe.LogHandler(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	key, err := receipt.GenerateKey()
	must(t, err)
	issuer, err := receipt.NewIssuer(receipt.Options{Name: "test", Key: key})
	must(t, err)
	path := filepath.Join(dir, "ledger.db")
	_, err = sqlite.Migrate(t.Context(), sqlite.Options{Path: path})
	must(t, err)
	p.ledger, err = sqlite.Open(t.Context(), sqlite.Options{Path: path, Signer: issuer, Logger: logger})
	must(t, err)
	t.Cleanup(func() { must(t, p.ledger.Close()) })
	p.observe, err = observe.Start(t.Context(), observe.Options{Version: "test", Instance: "one", Logger: logger, Tracing: to})
	must(t, err)
	t.Cleanup(func() { must(t, p.observe.Close(context.Background())) })
	program, err := os.Executable()
	must(t, err)
	config, err := json.Marshal(map[string]string{"path": filepath.Join(dir, "effects.jsonl")})
	must(t, err)
	p.adapter, err = host.Launch(t.Context(), host.Options{
		Name: channelName, Path: program, Config: config, Env: observe.AdapterEnv(to), Logger: logger, BeginProven: true, StartTimeout: time.Minute,
	})
	must(t, err)
	t.Cleanup(func() { must(t, p.adapter.Close(context.Background())) })
	sheet := p.adapter.Sheet()
	sheet.SettleTime = channel.Duration(100 * time.Millisecond)
	p.engine, err = core.New(t.Context(), core.Options{
		Ledger: p.ledger, Instance: "one", Logger: logger, Tracer: p.observe.TracerProvider(), Meter: p.observe.MeterProvider(),
		PollEvery: 20 * time.Millisecond, HeartbeatEvery: 100 * time.Millisecond, HeartbeatTimeout: 20 * time.Second, ClockAllowance: 20 * time.Millisecond,
		Channels: []core.ChannelOptions{{Name: channelName, Channel: p.adapter, Sheet: &sheet, Policy: core.Policy{
			Unknown: core.UnknownHold, ProbeEvery: 50 * time.Millisecond, BackoffFirst: 10 * time.Millisecond,
		}}},
	})
	must(t, err)
	must(t, p.observe.Watch(observe.Sources{Ledger: p.ledger, Engine: p.engine, Adapters: func() map[string]observe.Adapter {
		return map[string]observe.Adapter{channelName: {Ready: p.adapter.Ready() == nil, Restarts: p.adapter.Generation() - 1}}
	}}))
	return p
}

// run runs the engine until the test, or the returned function, ends it.
func (p *place) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.engine.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(p.t, <-done)
	})
	p.t.Cleanup(stop)
	return stop
}

// claim claims and waits for the end.
func (p *place) claim(ctx context.Context, name string) ledger.Intent {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := p.engine.Claim(ctx, ledger.Claim{RunID: p.runID, EffectKey: "file:" + name, Channel: channelName, Payload: fmt.Appendf(nil, `{"say":%q,"canary":%q}`, name, canary)})
	must(p.t, err)
	i, err := p.engine.Wait(ctx, r[0].Key)
	must(p.t, err)
	return i
}

// canary is in every payload and header, and must be in no metric, span or log line.
const canary = "xyzzy-canary"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
