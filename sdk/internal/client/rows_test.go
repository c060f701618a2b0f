package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// fake is an adapter whose answers the test writes, below the SDK.
type fake struct {
	adapterv1.UnimplementedAdapterServer
	adapterv1.UnimplementedChannelServer
	send  func(context.Context, *adapterv1.SendRequest) (*adapterv1.SendReply, error)
	probe func(context.Context, *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error)
	token func(context.Context, *adapterv1.IdempotencyTokenRequest) (*adapterv1.IdempotencyTokenReply, error)
}

func (f *fake) Send(ctx context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
	return f.send(ctx, r)
}

func (f *fake) Probe(ctx context.Context, r *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
	return f.probe(ctx, r)
}

func (f *fake) IdempotencyToken(ctx context.Context, r *adapterv1.IdempotencyTokenRequest) (*adapterv1.IdempotencyTokenReply, error) {
	return f.token(ctx, r)
}

type world struct {
	conn   *Conn
	server *grpc.Server
}

// connect serves the fake with limits above the protocol's, so that only the client's own limit is tested.
func connect(t *testing.T, f *fake, begins Begins) world {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	s := grpc.NewServer(grpc.MaxRecvMsgSize(2*wire.MaxMessage), grpc.MaxSendMsgSize(2*wire.MaxMessage))
	adapterv1.RegisterAdapterServer(s, f)
	adapterv1.RegisterChannelServer(s, f)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(listener) }()
	cc, err := grpc.NewClient("passthrough:fake", append(DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close(); s.Stop(); <-served })
	return world{conn: New(cc, Options{CallTimeout: 20 * time.Second, Begins: begins}), server: s}
}

func attempt() channel.Attempt {
	return channel.Attempt{
		Intent: channel.Intent{RunID: "r", EffectKey: "toy:1"}, Number: 1, NotAfter: time.Now().Add(time.Minute),
		Tokens: []channel.Token{{Version: 1, Data: []byte("t")}},
	}
}

func verdict(err error) string {
	var ambiguous *channel.AmbiguousError
	var rejected *channel.RejectedError
	var notSent *channel.NotSentError
	switch {
	case err == nil:
		return "outcome"
	case errors.As(err, &ambiguous):
		return "ambiguous"
	case errors.As(err, &rejected):
		return "rejected"
	case errors.As(err, &notSent):
		return "not sent"
	}
	return "untyped"
}

func TestSendThatNeverEnteredTheTransportIsNotSent(t *testing.T) {
	never := &fake{send: func(context.Context, *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
		t.Error("the adapter was reached")
		return nil, status.Error(codes.Internal, "unreachable")
	}}
	for _, row := range []struct {
		name string
		do   func(world) error
	}{
		{"adapter already dead", func(w world) error {
			w.server.Stop()
			_, err := w.conn.Send(t.Context(), attempt())
			return err
		}},
		{"caller already gave up", func(w world) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := w.conn.Send(ctx, attempt())
			return err
		}},
		{"deadline already passed", func(w world) error {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			defer cancel()
			_, err := w.conn.Send(ctx, attempt())
			return err
		}},
		{"no not-after", func(w world) error {
			a := attempt()
			a.NotAfter = time.Time{}
			_, err := w.conn.Send(t.Context(), a)
			return err
		}},
		{"not-after passed", func(w world) error {
			a := attempt()
			a.NotAfter = time.Now()
			_, err := w.conn.Send(t.Context(), a)
			return err
		}},
		{"text that is not UTF-8", func(w world) error {
			a := attempt()
			a.Intent.EffectKey = "toy:\xff"
			_, err := w.conn.Send(t.Context(), a)
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := row.do(connect(t, never, nil)); verdict(err) != "not sent" {
				t.Errorf("got %s (%v), want not sent", verdict(err), err)
			}
		})
	}
}

func TestSendOverTheMessageLimitIsRejectedBeforeTheWire(t *testing.T) {
	w := connect(t, &fake{}, nil)
	a := attempt()
	a.Tokens[0].Data = make([]byte, wire.MaxMessage)
	if _, err := w.conn.Send(t.Context(), a); verdict(err) != "rejected" || !strings.Contains(err.Error(), "33554432") {
		t.Errorf("got %s: %v", verdict(err), err)
	}
}

func TestLargestMessageCrosses(t *testing.T) {
	w := connect(t, &fake{send: func(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
		return delivered(r), nil
	}}, nil)
	a := attempt()
	a.Tokens[0].Data = bytes.Repeat([]byte{1}, wire.MaxMessage-1024)
	if _, err := w.conn.Send(t.Context(), a); err != nil {
		t.Error(err)
	}
}

func delivered(r *adapterv1.SendRequest) *adapterv1.SendReply {
	return &adapterv1.SendReply{CallId: r.GetCall().GetId(), Begun: true, Result: &adapterv1.SendReply_Outcome{
		Outcome: &adapterv1.Outcome{Kind: adapterv1.OutcomeKind_OUTCOME_KIND_DELIVERED},
	}}
}

// Once the payload was handed to the transport, no status code says what happened.
func TestSendThatWasHandedOverIsAmbiguousWhateverTheStatusCode(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			w := connect(t, &fake{send: func(context.Context, *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
				return nil, status.Error(code, "the adapter says so")
			}}, nil)
			if _, err := w.conn.Send(t.Context(), attempt()); verdict(err) != "ambiguous" {
				t.Errorf("got %s (%v), want ambiguous", verdict(err), err)
			}
		})
	}
}

func TestSendCutInTheMiddleIsAmbiguous(t *testing.T) {
	for _, row := range []struct {
		name string
		cut  func(world, context.CancelFunc)
	}{
		{"adapter killed", func(w world, _ context.CancelFunc) { go w.server.Stop() }},
		{"caller gave up", func(_ world, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			inside := make(chan struct{})
			w := connect(t, &fake{send: func(ctx context.Context, _ *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
				close(inside)
				<-ctx.Done()
				return nil, ctx.Err()
			}}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-inside; row.cut(w, cancel) }()
			if _, err := w.conn.Send(ctx, attempt()); verdict(err) != "ambiguous" {
				t.Errorf("got %s (%v), want ambiguous", verdict(err), err)
			}
		})
	}
	t.Run("deadline", func(t *testing.T) {
		w := connect(t, &fake{send: func(ctx context.Context, _ *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := w.conn.Send(ctx, attempt()); verdict(err) != "ambiguous" {
			t.Errorf("got %s (%v), want ambiguous", verdict(err), err)
		}
	})
}

func TestReplyThatCannotBeTrustedIsAmbiguous(t *testing.T) {
	outcome := func(o *adapterv1.Outcome) *adapterv1.SendReply {
		return &adapterv1.SendReply{Result: &adapterv1.SendReply_Outcome{Outcome: o}}
	}
	for _, row := range []struct {
		name  string
		reply *adapterv1.SendReply
	}{
		{"empty", &adapterv1.SendReply{}},
		{"outcome without kind", outcome(&adapterv1.Outcome{})},
		{"unknown outcome", outcome(&adapterv1.Outcome{Kind: 99})},
		{"failure without kind", &adapterv1.SendReply{Result: &adapterv1.SendReply_Failure{Failure: &adapterv1.Failure{}}}},
		{"unknown failure", &adapterv1.SendReply{Result: &adapterv1.SendReply_Failure{Failure: &adapterv1.Failure{Kind: 99}}}},
		{"wrong call", &adapterv1.SendReply{CallId: wire.NewCallID(), Result: delivered(nil).Result}},
		{"over the limit", outcome(&adapterv1.Outcome{
			Kind:     adapterv1.OutcomeKind_OUTCOME_KIND_DELIVERED,
			Evidence: &adapterv1.Evidence{Detail: make([]byte, wire.MaxMessage)},
		})},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := connect(t, &fake{send: func(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
				if row.reply.CallId == "" {
					row.reply.CallId = r.GetCall().GetId()
				}
				return row.reply, nil
			}}, nil)
			if _, err := w.conn.Send(t.Context(), attempt()); verdict(err) != "ambiguous" {
				t.Errorf("got %s (%v), want ambiguous", verdict(err), err)
			}
		})
	}
}

func TestTypedReplyIsTakenAsItIs(t *testing.T) {
	failure := func(f *adapterv1.Failure) *adapterv1.SendReply {
		return &adapterv1.SendReply{Result: &adapterv1.SendReply_Failure{Failure: f}}
	}
	for _, row := range []struct {
		name, want string
		reply      *adapterv1.SendReply
	}{
		{"delivered", "outcome", delivered(nil)},
		{"not sent", "not sent", failure(&adapterv1.Failure{Kind: adapterv1.FailureKind_FAILURE_KIND_NOT_SENT, RetryAfterNs: int64(time.Minute), Configuration: true})},
		{"rejected", "rejected", failure(&adapterv1.Failure{Kind: adapterv1.FailureKind_FAILURE_KIND_REJECTED, Code: "550"})},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := connect(t, &fake{send: func(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
				row.reply.CallId = r.GetCall().GetId()
				return row.reply, nil
			}}, nil)
			_, err := w.conn.Send(t.Context(), attempt())
			if verdict(err) != row.want {
				t.Fatalf("got %s (%v), want %s", verdict(err), err, row.want)
			}
			var notSent *channel.NotSentError
			if errors.As(err, &notSent) && (notSent.RetryAfter != time.Minute || !notSent.Configuration) {
				t.Errorf("lost on the way: %+v", notSent)
			}
			var rejected *channel.RejectedError
			if errors.As(err, &rejected) && rejected.Code != "550" {
				t.Errorf("lost on the way: %+v", rejected)
			}
		})
	}
}

// ledger is a Begins that answers as the test wants.
type ledger struct {
	never, lost  bool
	contradicted bool
	forgotten    bool
}

func (l *ledger) Expect(string) func() { return func() { l.forgotten = true } }
func (l *ledger) NeverBegan(_ string, lost bool) bool {
	l.lost = lost
	return l.never
}
func (l *ledger) Contradicted() { l.contradicted = true }

func TestMissingBeginRecordTurnsAmbiguousIntoNotSentOnlyWhenProven(t *testing.T) {
	for _, row := range []struct {
		code codes.Code
		l    ledger
		want string
		lost bool
	}{
		{codes.Unavailable, ledger{never: true}, "not sent", true},
		{codes.Unavailable, ledger{never: false}, "ambiguous", true},
		{codes.DeadlineExceeded, ledger{never: true}, "not sent", false},
		{codes.Internal, ledger{never: false}, "ambiguous", false},
	} {
		w := connect(t, &fake{send: func(context.Context, *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
			return nil, status.Error(row.code, "gone")
		}}, &row.l)
		_, err := w.conn.Send(t.Context(), attempt())
		if verdict(err) != row.want || row.l.lost != row.lost || !row.l.forgotten {
			t.Errorf("%s, proven %t: got %s, asked with lost=%t, forgotten=%t", row.code, row.l.never, verdict(err), row.l.lost, row.l.forgotten)
		}
	}
}

func TestEffectWithoutBeginIsReportedAsContradiction(t *testing.T) {
	l := &ledger{}
	w := connect(t, &fake{send: func(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
		reply := delivered(r)
		reply.Begun = false
		return reply, nil
	}}, l)
	if _, err := w.conn.Send(t.Context(), attempt()); err != nil || !l.contradicted {
		t.Errorf("err %v, contradicted %t", err, l.contradicted)
	}
}
