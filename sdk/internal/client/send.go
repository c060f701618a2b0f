package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/boottime"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// Send makes one attempt. The attempt's own BeginFunc is not used: Begin is the adapter process's.
func (c *Conn) Send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	outcome, err := c.send(ctx, a)
	return c.redactOutcome(outcome), c.redactError(err)
}

func (c *Conn) send(ctx context.Context, a channel.Attempt) (channel.Outcome, error) {
	if a.NotAfter.IsZero() {
		return channel.Outcome{}, channel.NotSent(errors.New("the attempt has no not-after time"))
	}
	deadline := boottime.At(a.NotAfter)
	if deadline.Passed(boottime.Now(), time.Now().UnixNano()) {
		return channel.Outcome{}, channel.NotSent(errors.New("the not-after time has passed"))
	}
	request := wire.FromSend(newCall(deadline), a)
	if err := fits(request); err != nil {
		return channel.Outcome{}, channel.Rejected("", err)
	}
	ctx, cancel := context.WithDeadline(ctx, a.NotAfter.Add(c.options.CallTimeout))
	defer cancel()
	ctx, flag := withFlag(wire.WithTrace(ctx))
	id := request.GetCall().GetId()
	if c.options.Begins != nil {
		defer c.options.Begins.Expect(id)()
	}
	reply, err := c.calls.Send(ctx, request)
	if err != nil {
		return channel.Outcome{}, c.unanswered(id, flag, err)
	}
	return c.answered(request.GetCall(), reply)
}

// unanswered decides what a send without a reply means. The status code never counts as a proof.
func (c *Conn) unanswered(id string, flag *wireFlag, err error) error {
	if !flag.touched.Load() {
		return channel.NotSent(fmt.Errorf("the request never entered the transport: %w", err))
	}
	lost := status.Code(err) == codes.Unavailable
	if c.options.Begins != nil && c.options.Begins.NeverBegan(id, lost) {
		return channel.NotSent(fmt.Errorf("the adapter process died before Begin: %w", err))
	}
	return channel.Ambiguous("no reply", err)
}

func (c *Conn) answered(call *adapterv1.Call, reply *adapterv1.SendReply) (channel.Outcome, error) {
	if err := answers(reply, call); err != nil {
		return channel.Outcome{}, channel.Ambiguous("wrong reply", err)
	}
	switch result := reply.GetResult().(type) {
	case *adapterv1.SendReply_Failure:
		return channel.Outcome{}, wire.ToError(result.Failure)
	case *adapterv1.SendReply_Outcome:
		outcome := wire.ToOutcome(result.Outcome)
		if outcome.Kind == channel.OutcomeAmbiguous {
			return channel.Outcome{}, channel.Ambiguous("no outcome", fmt.Errorf("the adapter gave outcome %d: %s",
				int(result.Outcome.GetKind()), outcome.Reason))
		}
		if !reply.GetBegun() && outcome.Kind != channel.OutcomeSuccessorWanted && c.options.Begins != nil {
			c.options.Begins.Contradicted()
		}
		return outcome, nil
	}
	return channel.Outcome{}, channel.Ambiguous("empty reply", errors.New("the adapter's reply holds neither outcome nor failure"))
}

// fits checks a request against the limit before it is sent.
func fits(m proto.Message) error {
	if n := proto.Size(m); n > wire.MaxMessage {
		return fmt.Errorf("payload and tokens make a message of %d bytes; the limit is %d: make the payload smaller", n, wire.MaxMessage)
	}
	return nil
}

func (c *Conn) redactOutcome(o channel.Outcome) channel.Outcome {
	o.Reason, o.Evidence = c.options.Redact(o.Reason), c.redactEvidence(o.Evidence)
	return o
}

// redactEvidence redacts what the outside system said, which goes into receipts: it may say again what it was told. The id stays: it
// is what the effect is found by.
func (c *Conn) redactEvidence(e channel.Evidence) channel.Evidence {
	if text := string(e.Detail); text != "" {
		if hidden := c.options.Redact(text); hidden != text {
			e.Detail = []byte(hidden)
		}
	}
	return e
}

// redactError rebuilds a typed error with its text redacted.
func (c *Conn) redactError(err error) error {
	switch e := err.(type) { //nolint:errorlint // these are the errors that this package makes, never wrapped
	case *channel.NotSentError:
		return &channel.NotSentError{RetryAfter: e.RetryAfter, Configuration: e.Configuration, Err: c.redacted(e.Err)}
	case *channel.RejectedError:
		return &channel.RejectedError{Code: c.options.Redact(e.Code), Err: c.redacted(e.Err)}
	case *channel.AmbiguousError:
		return &channel.AmbiguousError{Phase: e.Phase, Err: c.redacted(e.Err)}
	}
	return err
}

func (c *Conn) redacted(err error) error {
	if text := err.Error(); c.options.Redact(text) != text {
		return errors.New(c.options.Redact(text))
	}
	return err
}
