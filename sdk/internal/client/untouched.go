package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

// wireFlag says whether the payload of one call may have reached the transport.
type wireFlag struct{ touched atomic.Bool }

type flagKey struct{}

func withFlag(ctx context.Context) (context.Context, *wireFlag) {
	flag := new(wireFlag)
	return context.WithValue(ctx, flagKey{}, flag), flag
}

// payloadWatch raises the flag of a call when its payload was queued.
type payloadWatch struct{}

func (payloadWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (payloadWatch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, out := s.(*stats.OutPayload); !out {
		return
	}
	if flag, ok := ctx.Value(flagKey{}).(*wireFlag); ok {
		flag.touched.Store(true)
	}
}

func (payloadWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (payloadWatch) HandleConn(context.Context, stats.ConnStats)                       {}

// DialOptions are the options that a connection for [New] MUST be dialled with: without them "not sent" has no proof.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStatsHandler(payloadWatch{}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0), // an idle connection must not be redialled in the middle of a send
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage),
			grpc.WaitForReady(false)),
	}
}
