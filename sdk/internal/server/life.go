package server

import (
	"context"
	"fmt"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// life serves the Adapter service.
type life struct {
	adapterv1.UnimplementedAdapterServer
	server *Server
}

func (l life) Describe(_ context.Context, r *adapterv1.DescribeRequest) (*adapterv1.DescribeReply, error) {
	c := l.server.config
	if c.OnDescribe != nil {
		c.OnDescribe()
	}
	return &adapterv1.DescribeReply{
		CallId: r.GetCall().GetId(), Sheet: wire.FromSheet(c.Sheet), SdkVersion: c.SDKVersion,
		ProtocolMinor: wire.ProtocolMinor,
	}, nil
}

func (l life) Configure(_ context.Context, r *adapterv1.ConfigureRequest) (*adapterv1.ConfigureReply, error) {
	reply := &adapterv1.ConfigureReply{CallId: r.GetCall().GetId()}
	ch, err := l.server.configure(r.GetConfig())
	if err != nil {
		reply.Failure = wire.FromError(err)
		return reply, nil
	}
	if s, ok := ch.(interface{ Sheet() channel.Sheet }); ok {
		reply.Sheet = wire.FromSheet(s.Sheet())
	}
	return reply, nil
}

func (s *Server) configure(config []byte) (channel.Channel, error) {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return nil, fmt.Errorf("configure was called twice: a new configuration needs a new process")
	}
	s.started = true
	s.mu.Unlock()

	ch, err := guard(s.ctx, "New", func() (channel.Channel, error) { return s.config.New(s.ctx, config) })
	if err != nil {
		return nil, err
	}
	if ch == nil {
		return nil, fmt.Errorf("the adapter's New returned neither a channel nor an error")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channel = ch
	return ch, nil
}

func (l life) Health(ctx context.Context, r *adapterv1.HealthRequest) (*adapterv1.HealthReply, error) {
	reply := &adapterv1.HealthReply{CallId: r.GetCall().GetId()}
	ch, err := l.server.ready()
	if checker, ok := ch.(HealthChecker); ok && err == nil {
		ctx = WithLogger(ctx, l.server.config.Logger)
		_, err = guard(ctx, "Health", func() (struct{}, error) { return struct{}{}, checker.Health(ctx) })
	}
	if reply.Ok = err == nil; err != nil {
		reply.Message = wire.Text(err.Error())
	}
	return reply, nil
}

func (l life) Drain(ctx context.Context, r *adapterv1.DrainRequest) (*adapterv1.DrainReply, error) {
	s := l.server
	s.mu.Lock()
	s.draining = true
	s.settle()
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &adapterv1.DrainReply{CallId: r.GetCall().GetId(), InFlight: uint32(s.sends)}, nil
}
