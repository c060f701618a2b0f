package sdktest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk"
	"github.com/pawlworks/pawl/sdk/internal/boottime"
	"github.com/pawlworks/pawl/sdk/internal/client"
	"github.com/pawlworks/pawl/sdk/internal/server"
)

// DefaultNotAfter is how far ahead the not-after of an attempt is that states none.
const DefaultNotAfter = time.Minute

// CallTimeout bounds every call of a Host.
const CallTimeout = 30 * time.Second

// Host runs one adapter. It is a channel.Channel and safe for concurrent use.
type Host struct {
	conn *client.Conn

	mu     sync.Mutex
	cut    bool
	ahead  time.Duration
	hook   func(callID string) error
	begins int
}

var _ channel.Channel = (*Host)(nil)

// New starts the adapter with the configuration and fails the test if it does not start. config is marshalled to JSON;
// nil stands for an empty object. The adapter ends with the test.
func New(t testing.TB, adapter sdk.Adapter, config any) *Host {
	t.Helper()
	h, err := Try(t, adapter, config)
	if err != nil {
		t.Fatalf("start the adapter: %v", err)
	}
	return h
}

// Try is New for a test of the configuration: it returns what the adapter's New answered.
func Try(t testing.TB, adapter sdk.Adapter, config any) (*Host, error) {
	t.Helper()
	if err := adapter.Validate(); err != nil {
		t.Fatalf("the adapter is declared wrongly: %v", err)
	}
	if config == nil {
		config = struct{}{}
	}
	document, err := json.Marshal(config)
	if err != nil {
		t.Fatalf("marshal the configuration: %v", err)
	}
	h := &Host{}
	s := server.New(server.Config{
		Sheet: adapter.Sheet, New: adapter.New, SDKVersion: sdk.Version,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Ground: server.Ground{EngineGone: h.engineGone, Record: h.record, Now: h.now},
	})
	cc := serve(t, s)
	h.conn = client.New(cc, client.Options{CallTimeout: CallTimeout})
	ctx := t.Context()
	if _, err := h.conn.Describe(ctx); err != nil {
		t.Fatalf("describe the adapter: %v", err)
	}
	_, err = h.conn.Configure(ctx, t.Name(), document)
	return h, err
}

// serve connects a server in memory and ends everything with the test.
func serve(t testing.TB, s *server.Server) *grpc.ClientConn {
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer(server.Options()...)
	s.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	cc, err := grpc.NewClient("passthrough:adapter", append(client.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatalf("connect to the adapter: %v", err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve the adapter: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close the adapter: %v", err)
		}
	})
	return cc
}

// IdempotencyToken implements channel.Channel.
func (h *Host) IdempotencyToken(ctx context.Context, r channel.TokenRequest) (channel.Token, error) {
	return h.conn.IdempotencyToken(ctx, r)
}

// Send implements channel.Channel. An attempt without a not-after gets one [DefaultNotAfter] ahead; its BeginFunc is
// not used.
func (h *Host) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	if a.NotAfter.IsZero() {
		a.NotAfter = time.Now().Add(DefaultNotAfter)
	}
	return h.conn.Send(ctx, a)
}

// Probe implements channel.Channel.
func (h *Host) Probe(ctx context.Context, a channel.Attempt) (channel.Finding, error) {
	return h.conn.Probe(ctx, a)
}

// Health asks the adapter how it is.
func (h *Host) Health(ctx context.Context) error {
	_, err := h.conn.Health(ctx)
	return err
}

// Sheet asks the adapter for its sheet, as it crosses the wire.
func (h *Host) Sheet(ctx context.Context) (channel.Sheet, error) {
	d, err := h.conn.Describe(ctx)
	return d.Sheet, err
}

// CutLifeline lets the engine be gone, as far as the adapter can tell: every later Begin refuses.
func (h *Host) CutLifeline() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = true
}

// Advance moves both of the adapter's clocks ahead, so that a not-after can pass within Send.
func (h *Host) Advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

// OnBegin has f called at each Begin that was let through so far, where the process would write its record. An error
// makes Begin refuse. f may call Advance and CutLifeline: Begin looks again afterwards. nil removes the hook.
func (h *Host) OnBegin(f func(callID string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = f
}

// Begins is how many records were written: how often the wire may have been touched.
func (h *Host) Begins() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begins
}

func (h *Host) engineGone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut
}

func (h *Host) record(callID string) error {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook != nil {
		if err := hook(callID); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begins++
	return nil
}

func (h *Host) now() (int64, int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return boottime.Now() + int64(h.ahead), time.Now().UnixNano() + int64(h.ahead)
}
