package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// service is the demo's side of pawl serve: a caller that knows nothing but its address.
type service struct {
	listen string
	client *pawlclient.Client
}

// newService finds a free port, which stays the service's through all its lives.
func newService() (service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return service{}, fmt.Errorf("find a free port: %w", err)
	}
	s := service{listen: l.Addr().String()}
	if err := l.Close(); err != nil {
		return service{}, err
	}
	s.client, err = pawlclient.New(pawlclient.Options{URL: "http://" + s.listen, Timeout: 5 * time.Second})
	return s, err
}

// claim claims until there is an answer: the service is killed again and again, and a claim is safe to repeat.
func (s service) claim(ctx context.Context, claims []ledger.Claim) ([]ledger.Key, error) {
	asked := make([]pawlclient.Claim, len(claims))
	for n, c := range claims {
		asked[n] = pawlclient.Claim{RunID: c.RunID, EffectKey: c.EffectKey, Channel: c.Channel, Payload: c.Payload}
	}
	for {
		batch, err := s.client.ClaimAll(ctx, asked)
		var refused *pawlclient.Problem
		switch {
		case err == nil:
			keys := make([]ledger.Key, len(batch.Results))
			for n, r := range batch.Results {
				keys[n] = ledger.Key{RunID: r.Intent.RunID, EffectKey: r.Intent.EffectKey}
			}
			return keys, nil
		case errors.As(err, &refused) && refused.Status < 500:
			return nil, err
		case !pause(ctx, 50*time.Millisecond):
			return nil, context.Cause(ctx)
		}
	}
}
