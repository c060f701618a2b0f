package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// HealthChecker is an optional part of a channel: what it thinks of itself. It SHOULD answer within a second and MUST
// NOT change the outside system.
type HealthChecker interface {
	Health(ctx context.Context) error
}

// Config is what a Server serves. Every field is required but OnDescribe and Tracer.
type Config struct {
	Sheet      channel.Sheet
	New        func(ctx context.Context, config json.RawMessage) (channel.Channel, error)
	SDKVersion string
	Logger     *slog.Logger
	Ground     Ground
	OnDescribe func()               // called at the start of each Describe
	Tracer     trace.TracerProvider // nil: the process's
}

// Server serves one channel. It is safe for concurrent use.
type Server struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	started  bool // New has been called
	channel  channel.Channel
	draining bool
	sends    int
	idle     chan struct{} // closed when draining and no send is under way
}

// New returns a server that has not been configured yet.
func New(config Config) *Server {
	ctx, cancel := context.WithCancel(WithLogger(context.Background(), config.Logger))
	return &Server{config: config, ctx: ctx, cancel: cancel, idle: make(chan struct{})}
}

// Options are the options that the gRPC server needs.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage)}
}

// Register adds both services.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	adapterv1.RegisterAdapterServer(r, life{server: s})
	adapterv1.RegisterChannelServer(r, calls{server: s})
}

// Close ends the context that New was given and closes the channel if it is an io.Closer.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	ch := s.channel
	s.channel = nil
	s.mu.Unlock()
	if closer, ok := ch.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			return fmt.Errorf("close the channel: %w", err)
		}
	}
	return nil
}

var (
	errNotConfigured = errors.New("the adapter has not been configured")
	errDraining      = errors.New("the adapter is draining")
)

func (s *Server) ready() (channel.Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channel == nil {
		return nil, errNotConfigured
	}
	return s.channel, nil
}

// enter admits a send; leave ends it.
func (s *Server) enter() (channel.Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.channel == nil:
		return nil, errNotConfigured
	case s.draining:
		return nil, errDraining
	}
	s.sends++
	return s.channel, nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends--
	s.settle()
}

// settle closes idle when the last send of a draining server is done. It is called with mu held.
func (s *Server) settle() {
	if !s.draining || s.sends > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// guard runs f and turns a panic into an error.
func guard[T any](ctx context.Context, call string, f func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			Logger(ctx).Error("adapter panicked", "call", call, "panic", wire.Text(fmt.Sprint(p)),
				"stack", wire.Text(string(debug.Stack())))
			var none T
			value, err = none, &panicError{call: call, value: p}
		}
	}()
	return f()
}

// panicError is what a panic becomes. It deliberately unwraps to nothing: a panic with a typed error as its value
// proves no more than any other.
type panicError struct {
	call  string
	value any
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the adapter panicked in %s: %v", e.call, e.value)
}
