package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/boottime"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// Begins is what the process behind a connection wrote to its Begin pipe.
type Begins interface {
	// Expect announces a call. The returned function forgets it.
	Expect(callID string) (forget func())
	// NeverBegan reports whether it is proven that the call did not pass Begin and never will. connectionLost says
	// that the process may be dying right now, so that a short wait for its end is worth it.
	NeverBegan(callID string, connectionLost bool) bool
	// Contradicted is told that the adapter made an effect without Begin.
	Contradicted()
}

// Options adjust a Conn.
type Options struct {
	// CallTimeout bounds each call; for Send it is how long after the not-after the answer is awaited. Required.
	CallTimeout time.Duration
	Begins      Begins              // nil: nothing is ever concluded from a missing record
	Redact      func(string) string // applied to every text of the adapter; nil: none
}

// Conn is a channel.Channel over one connection. It is safe for concurrent use.
type Conn struct {
	life    adapterv1.AdapterClient
	calls   adapterv1.ChannelClient
	options Options
}

var _ channel.Channel = (*Conn)(nil)

// New returns a Conn. The connection MUST have been dialled with [DialOptions].
func New(cc grpc.ClientConnInterface, options Options) *Conn {
	if options.Redact == nil {
		options.Redact = func(s string) string { return s }
	}
	return &Conn{life: adapterv1.NewAdapterClient(cc), calls: adapterv1.NewChannelClient(cc), options: options}
}

// call makes a bounded context, with the trace of ctx in its metadata, and the call that carries its bound. Every call has a
// deadline.
func (c *Conn) call(ctx context.Context) (context.Context, context.CancelFunc, *adapterv1.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
	deadline, _ := ctx.Deadline()
	return wire.WithTrace(ctx), cancel, newCall(boottime.At(deadline))
}

func newCall(d boottime.Deadline) *adapterv1.Call {
	return &adapterv1.Call{Id: wire.NewCallID(), NotAfterBootNs: d.Boot, NotAfterWallNs: d.Wall}
}

var errWrongReply = errors.New("the adapter answered another call than the one that was made")

func answers(reply interface{ GetCallId() string }, call *adapterv1.Call) error {
	if reply.GetCallId() != call.GetId() {
		return errWrongReply
	}
	return nil
}

// Description is what an adapter says of itself.
type Description struct {
	Sheet         channel.Sheet
	SDKVersion    string
	ProtocolMinor int
}

// Describe asks for the sheet.
func (c *Conn) Describe(ctx context.Context) (Description, error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	reply, err := c.life.Describe(ctx, &adapterv1.DescribeRequest{Call: call})
	if err == nil {
		err = answers(reply, call)
	}
	if err != nil {
		return Description{}, fmt.Errorf("describe: %w", c.redacted(err))
	}
	return Description{
		Sheet: wire.ToSheet(reply.GetSheet()), SDKVersion: wire.Text(reply.GetSdkVersion()),
		ProtocolMinor: int(reply.GetProtocolMinor()),
	}, nil
}

// Configure hands over the configuration and returns the sheet that holds with it; nil: the described one. No error it
// returns holds any of the configuration.
func (c *Conn) Configure(ctx context.Context, name string, config json.RawMessage) (*channel.Sheet, error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	reply, err := c.life.Configure(ctx, &adapterv1.ConfigureRequest{Call: call, Config: config, Name: name})
	if err == nil {
		err = answers(reply, call)
	}
	if err != nil {
		return nil, fmt.Errorf("configure: %w", c.redacted(err))
	}
	if f := reply.GetFailure(); f != nil {
		return nil, fmt.Errorf("configure: %s", c.options.Redact(wire.Text(f.GetMessage())))
	}
	if m := reply.GetSheet(); m != nil {
		sheet := wire.ToSheet(m)
		return &sheet, nil
	}
	return nil, nil
}

// Health asks the process whether it answers. alive is false if it did not; err is then why. An adapter that answers
// but is not well gives alive and an error.
func (c *Conn) Health(ctx context.Context) (alive bool, err error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	reply, err := c.life.Health(ctx, &adapterv1.HealthRequest{Call: call})
	if err == nil {
		err = answers(reply, call)
	}
	if err != nil {
		return false, fmt.Errorf("health: %w", c.redacted(err))
	}
	if !reply.GetOk() {
		return true, fmt.Errorf("health: the adapter says: %s", c.options.Redact(wire.Text(reply.GetMessage())))
	}
	return true, nil
}

// Drain asks the adapter to finish its sends and returns how many are still under way.
func (c *Conn) Drain(ctx context.Context) (int, error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	reply, err := c.life.Drain(ctx, &adapterv1.DrainRequest{Call: call})
	if err != nil {
		return 0, fmt.Errorf("drain: %w", c.redacted(err))
	}
	return int(reply.GetInFlight()), nil
}
