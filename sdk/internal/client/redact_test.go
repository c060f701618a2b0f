package client

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// An adapter may say its secrets anywhere: in a status, as the outside system's words.
func TestNothingThatAnAdapterSaysShowsASecret(t *testing.T) {
	const secret = "hunter2"
	refusal := status.Error(codes.Internal, "login with "+secret)
	detail := &adapterv1.Evidence{Id: []byte("m-1"), Detail: []byte(`{"reply":"250 ok ` + secret + `"}`)}
	broken := &fake{
		send: func(context.Context, *adapterv1.SendRequest) (*adapterv1.SendReply, error) { return nil, refusal },
		probe: func(context.Context, *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
			return nil, refusal
		},
		token: func(context.Context, *adapterv1.IdempotencyTokenRequest) (*adapterv1.IdempotencyTokenReply, error) {
			return nil, refusal
		},
	}
	talking := &fake{
		send: func(_ context.Context, r *adapterv1.SendRequest) (*adapterv1.SendReply, error) {
			return &adapterv1.SendReply{CallId: r.GetCall().GetId(), Begun: true, Result: &adapterv1.SendReply_Outcome{
				Outcome: &adapterv1.Outcome{Kind: adapterv1.OutcomeKind_OUTCOME_KIND_DELIVERED, Evidence: detail},
			}}, nil
		},
		probe: func(_ context.Context, r *adapterv1.ProbeRequest) (*adapterv1.ProbeReply, error) {
			return &adapterv1.ProbeReply{CallId: r.GetCall().GetId(), Finding: &adapterv1.Finding{
				Kind: adapterv1.FindingKind_FINDING_KIND_SENT, Match: adapterv1.Match_MATCH_EXACT, Evidence: detail,
			}}, nil
		},
	}
	for name, f := range map[string]*fake{"status": broken, "evidence": talking} {
		conn := connect(t, f, nil).conn
		conn.options.Redact = strings.NewReplacer(secret, "[redacted]").Replace
		outcome, err := conn.Send(t.Context(), attempt())
		finding, probeErr := conn.Probe(t.Context(), attempt())
		said := []string{string(outcome.Evidence.Detail), string(finding.Evidence.Detail), finding.Reason, text(err), text(probeErr)}
		if f.token != nil {
			_, err := conn.IdempotencyToken(t.Context(), channel.TokenRequest{Version: 1})
			said = append(said, text(err))
		}
		all := strings.Join(said, "\n")
		if strings.Contains(all, secret) || strings.Count(all, "[redacted]") < 2 {
			t.Errorf("%s: %s", name, all)
		}
		if d := outcome.Evidence.Detail; len(d) > 0 && (!json.Valid(d) || outcome.Evidence.ID != "m-1") {
			t.Errorf("%s: the evidence is %s %s", name, outcome.Evidence.ID, d)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
