package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// IdempotencyToken asks for a token. A [*channel.RejectedError] says that the payload can never be sent.
func (c *Conn) IdempotencyToken(ctx context.Context, r channel.TokenRequest) (channel.Token, error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	request := wire.FromTokenRequest(call, r)
	if err := fits(request); err != nil {
		return channel.Token{}, channel.Rejected("", err)
	}
	reply, err := c.calls.IdempotencyToken(ctx, request)
	if err == nil {
		err = answers(reply, call)
	}
	if err != nil {
		return channel.Token{}, fmt.Errorf("make a token: %w", c.redacted(err))
	}
	switch result := reply.GetResult().(type) {
	case *adapterv1.IdempotencyTokenReply_Token:
		token := wire.ToToken(result.Token)
		if token.Version != r.Version {
			return channel.Token{}, fmt.Errorf("make a token: version %d was asked for, the adapter made version %d", r.Version, token.Version)
		}
		return token, nil
	case *adapterv1.IdempotencyTokenReply_Failure:
		err := c.redactError(wire.ToError(result.Failure))
		var ambiguous *channel.AmbiguousError
		if errors.As(err, &ambiguous) { // the word means nothing here: nothing was to be sent
			err = ambiguous.Err
		}
		return channel.Token{}, fmt.Errorf("make a token: %w", err)
	}
	return channel.Token{}, errors.New("make a token: the adapter's reply is empty")
}

// Probe asks what became of an effect. Whatever goes wrong is an unknown finding, with the error beside it.
func (c *Conn) Probe(ctx context.Context, a channel.Attempt) (channel.Finding, error) {
	ctx, cancel, call := c.call(ctx)
	defer cancel()
	request := wire.FromProbe(call, a)
	if err := fits(request); err != nil {
		return unknown(err)
	}
	reply, err := c.calls.Probe(ctx, request)
	if err == nil {
		err = answers(reply, call)
	}
	gone := status.Code(err) == codes.Unavailable
	if err != nil {
		err = c.redacted(err)
	}
	if gone { // the process has gone: what it had learnt of the outside system went with it
		err = fmt.Errorf("%w: %w", channel.ErrNotAsked, err)
	}
	if err != nil {
		return unknown(err)
	}
	finding := wire.ToFinding(reply.GetFinding())
	finding.Reason, finding.Evidence = c.options.Redact(finding.Reason), c.redactEvidence(finding.Evidence)
	return finding, nil
}

func unknown(err error) (channel.Finding, error) {
	err = fmt.Errorf("probe: %w", err)
	return channel.UnknownFinding(err.Error()), err
}
