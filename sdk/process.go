package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pawlworks/pawl/sdk/internal/boottime"
	"github.com/pawlworks/pawl/sdk/internal/server"
	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// serveProcess serves the engine until the engine asks for the end or is gone.
func serveProcess(a Adapter) int {
	stderr, err := claimStandardStreams()
	if err != nil {
		fmt.Fprintf(os.Stderr, "adapter cannot start: %v\n", err)
		return exitFault
	}
	logger := slog.New(newLogHandler(stderr))
	line, err := openLifeline(wire.LifelineFD)
	if err != nil {
		logger.Error("adapter cannot start", "error", err)
		return exitFault
	}
	begins, err := openBeginPipe(wire.BeginFD)
	if err != nil {
		logger.Error("adapter cannot start", "error", err)
		return exitFault
	}
	var streams sync.Once
	s := server.New(server.Config{
		Sheet: a.Sheet, New: a.New, SDKVersion: Version, Logger: logger,
		Ground: server.Ground{
			EngineGone: line.cut, Record: begins.record,
			Now: func() (int64, int64) { return boottime.Now(), time.Now().UnixNano() },
		},
		// go-plugin puts pipes of its own in place of os.Stdout and os.Stderr, which block when nobody drains them.
		// Every handler runs after that, so this takes them out again.
		OnDescribe: func() { streams.Do(func() { os.Stdout, os.Stderr = stderr, stderr }) },
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		plugin.Serve(serveConfig(s, stderr))
	}()
	select {
	case <-served:
	case <-line.gone:
		// Nothing is closed in order here: sends under way are cut, and the engine's successor finds out what became
		// of them.
		return exitFault
	}
	if err := s.Close(); err != nil {
		logger.Error("adapter did not end cleanly", "error", err)
		return exitFault
	}
	return exitOK
}

func serveConfig(s *server.Server, stderr io.Writer) *plugin.ServeConfig {
	return &plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{
			wire.ProtocolMajor: {wire.PluginName: &servedPlugin{server: s}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, server.Options()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: stderr, JSONFormat: true}),
	}
}

// servedPlugin is the adapter as go-plugin sees it.
type servedPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server *server.Server
}

func (p *servedPlugin) GRPCServer(_ *plugin.GRPCBroker, r *grpc.Server) error {
	p.server.Register(r)
	return nil
}

func (p *servedPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("this is the adapter's side")
}
