package server

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/proto"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/boottime"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// calls serves the Channel service.
type calls struct {
	adapterv1.UnimplementedChannelServer
	server *Server
}

func (c calls) IdempotencyToken(ctx context.Context, r *adapterv1.IdempotencyTokenRequest) (*adapterv1.IdempotencyTokenReply, error) {
	ctx, span := c.server.begin(ctx, "token", r)
	defer span.End()
	reply := &adapterv1.IdempotencyTokenReply{CallId: r.GetCall().GetId()}
	token, err := c.server.token(ctx, wire.ToTokenRequest(r))
	if err != nil {
		failed(span, err)
		reply.Result = &adapterv1.IdempotencyTokenReply_Failure{Failure: wire.FromError(err)}
		return reply, nil
	}
	reply.Result = &adapterv1.IdempotencyTokenReply_Token{Token: wire.FromToken(token)}
	if size := proto.Size(reply); size > wire.MaxMessage {
		err := fmt.Errorf("the token has %d bytes, more than the %d that one message may hold", size, wire.MaxMessage)
		reply.Result = &adapterv1.IdempotencyTokenReply_Failure{Failure: wire.FromError(channel.Rejected("", err))}
	}
	return reply, nil
}

func (s *Server) token(ctx context.Context, r channel.TokenRequest) (channel.Token, error) {
	ch, err := s.ready()
	if err != nil {
		return channel.Token{}, err
	}
	token, err := guard(ctx, "IdempotencyToken", func() (channel.Token, error) { return ch.IdempotencyToken(ctx, r) })
	if err != nil {
		return channel.Token{}, err
	}
	if token.Version == 0 {
		token.Version = r.Version
	}
	return token, nil
}

func (c calls) Probe(ctx context.Context, r *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
	ctx, span := c.server.begin(ctx, "probe", r)
	defer span.End()
	finding, err := c.server.probe(ctx, wire.ToAttempt(r))
	if err != nil {
		failed(span, err)
		finding = channel.UnknownFinding(err.Error())
	}
	span.SetAttributes(attribute.String("pawl.finding", finding.Kind.String()))
	reply := &adapterv1.ProbeReply{CallId: r.GetCall().GetId(), Finding: wire.FromFinding(finding)}
	if proto.Size(reply) > wire.MaxMessage {
		shrink(reply.Finding.Evidence, &reply.Finding.Reason)
	}
	return reply, nil
}

func (s *Server) probe(ctx context.Context, a channel.Attempt) (channel.Finding, error) {
	ch, err := s.ready()
	if err != nil {
		return channel.Finding{}, err
	}
	return guard(ctx, "Probe", func() (channel.Finding, error) { return ch.Probe(ctx, a) })
}

func (c calls) Send(ctx context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
	ctx, span := c.server.begin(ctx, "send", r)
	defer span.End()
	reply := &adapterv1.SendReply{CallId: r.GetCall().GetId()}
	outcome, begun, err := c.server.send(ctx, r)
	reply.Begun = begun
	span.SetAttributes(attribute.Bool("pawl.begun", begun))
	if err != nil {
		failed(span, err)
		reply.Result = &adapterv1.SendReply_Failure{Failure: wire.FromError(err)}
		return reply, nil
	}
	span.SetAttributes(attribute.String("pawl.result", outcome.Kind.String()))
	result := wire.FromOutcome(outcome)
	reply.Result = &adapterv1.SendReply_Outcome{Outcome: result}
	if proto.Size(reply) > wire.MaxMessage {
		shrink(result.Evidence, &result.Reason)
	}
	return reply, nil
}

func (s *Server) send(ctx context.Context, r *adapterv1.SendRequest) (channel.Outcome, bool, error) {
	ch, err := s.enter()
	if err != nil {
		return channel.Outcome{}, false, channel.NotSent(err)
	}
	defer s.leave()
	call := r.GetCall()
	if !wire.ValidCallID(call.GetId()) {
		return channel.Outcome{}, false, channel.NotSent(errors.New("the engine sent a malformed call id"))
	}
	g := &gate{
		ctx: ctx, callID: call.GetId(), ground: s.config.Ground,
		deadline: boottime.Deadline{Boot: call.GetNotAfterBootNs(), Wall: call.GetNotAfterWallNs()},
	}
	a := wire.ToAttempt(r)
	a.BeginFunc = g.begin
	outcome, err := guard(ctx, "Send", func() (channel.Outcome, error) { return ch.Send(ctx, a) })
	recorded, opened, twice := g.end()
	if twice && err == nil && outcome.Kind == channel.OutcomeSuccessorWanted {
		err = errTwice
	}
	if err == nil {
		if !opened && s.config.Sheet.Begin && outcome.Kind != channel.OutcomeSuccessorWanted {
			Logger(ctx).Error("adapter answered without Begin although its sheet declares it", "outcome", outcome.Kind.String())
		}
		return outcome, recorded, nil
	}
	return channel.Outcome{}, recorded, s.sharpen(err, opened, twice)
}

// sharpen gives an error its strongest true type. See the table in the package comment.
func (s *Server) sharpen(err error, opened, twice bool) error {
	var ambiguous *channel.AmbiguousError
	typed := channel.ProvenNotSent(err) || errors.As(err, &ambiguous)
	switch {
	case twice:
		return channel.Ambiguous("begin called twice", err)
	case typed:
		return err
	case s.config.Sheet.Begin && !opened:
		return channel.NotSent(err)
	case opened:
		return channel.Ambiguous("after begin", err)
	default:
		return channel.Ambiguous("no begin", err)
	}
}

// shrink drops what a reply can spare, so that the evidence's id still gets through.
func shrink(e *adapterv1.Evidence, reason *string) {
	note := fmt.Sprintf("detail of %d bytes left out: a message holds %d", len(e.GetDetail()), wire.MaxMessage)
	e.Detail = nil
	*reason = wire.Text(note + "; " + *reason)
	if len(e.Id) > wire.MaxText {
		e.Id = e.Id[:wire.MaxText]
	}
}
