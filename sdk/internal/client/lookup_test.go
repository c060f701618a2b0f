package client

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/internal/wire"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

func TestProbeThatCannotBeTrustedIsUnknown(t *testing.T) {
	sent := &adapterv1.Finding{Kind: adapterv1.FindingKind_FINDING_KIND_SENT, Match: adapterv1.Match_MATCH_EXACT}
	for _, row := range []struct {
		name  string
		reply *adapterv1.ProbeReply
		err   error
		want  channel.FindingKind
	}{
		{"error", nil, status.Error(codes.Unavailable, "gone"), channel.FindingUnknown},
		{"empty", &adapterv1.ProbeReply{}, nil, channel.FindingUnknown},
		{"unknown kind", &adapterv1.ProbeReply{Finding: &adapterv1.Finding{Kind: 77, TokenDead: true, Control: true}}, nil, channel.FindingUnknown},
		{"wrong call", &adapterv1.ProbeReply{CallId: wire.NewCallID(), Finding: sent}, nil, channel.FindingUnknown},
		{"sent", &adapterv1.ProbeReply{Finding: sent}, nil, channel.FindingSent},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := connect(t, &fake{probe: func(_ context.Context, r *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
				if row.reply != nil && row.reply.CallId == "" {
					row.reply.CallId = r.GetCall().GetId()
				}
				return row.reply, row.err
			}}, nil)
			got, _ := w.conn.Probe(t.Context(), attempt())
			if got.Kind != row.want || got.Kind == channel.FindingUnknown && (got.TokenDead || got.Control) {
				t.Errorf("got %+v, want %s", got, row.want)
			}
		})
	}
}

func TestUnknownMatchIsHeuristic(t *testing.T) {
	w := connect(t, &fake{probe: func(_ context.Context, r *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
		return &adapterv1.ProbeReply{CallId: r.GetCall().GetId(), Finding: &adapterv1.Finding{
			Kind: adapterv1.FindingKind_FINDING_KIND_SENT, Match: 9,
		}}, nil
	}}, nil)
	if got, err := w.conn.Probe(t.Context(), attempt()); err != nil || got.Match != channel.MatchHeuristic {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTokenErrorsKeepTheirType(t *testing.T) {
	for _, row := range []struct {
		name    string
		failure *adapterv1.Failure
		version int32
		want    string
	}{
		{"rejected", &adapterv1.Failure{Kind: adapterv1.FailureKind_FAILURE_KIND_REJECTED}, 0, "rejected"},
		{"failed", &adapterv1.Failure{Message: "try again"}, 0, "untyped"},
		{"wrong version", nil, 3, "untyped"},
		{"made", nil, 2, "outcome"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := connect(t, &fake{token: func(_ context.Context, r *adapterv1.IdempotencyTokenRequest) (*adapterv1.IdempotencyTokenReply, error) {
				reply := &adapterv1.IdempotencyTokenReply{CallId: r.GetCall().GetId()}
				if row.failure != nil {
					reply.Result = &adapterv1.IdempotencyTokenReply_Failure{Failure: row.failure}
				} else {
					reply.Result = &adapterv1.IdempotencyTokenReply_Token{Token: &adapterv1.Token{Version: row.version}}
				}
				return reply, nil
			}}, nil)
			if _, err := w.conn.IdempotencyToken(t.Context(), channel.TokenRequest{Version: 2}); verdict(err) != row.want {
				t.Errorf("got %s (%v), want %s", verdict(err), err, row.want)
			}
		})
	}
}
