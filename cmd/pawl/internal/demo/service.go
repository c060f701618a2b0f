package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

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

// Scraped is what /metrics of the service counts at the end, without what the ledger held before.
type Scraped struct {
	Committed    int `json:"committed"`
	Abandoned    int `json:"abandoned"`
	Held         int `json:"held"`
	Unfinished   int `json:"unfinished"` // waiting, under way, accepted
	OwedReceipts int `json:"owed_receipts"`
}

// agrees reports whether the counters say what the table says.
func (s Scraped) agrees(r Result) bool {
	return s == Scraped{Committed: r.Committed, Abandoned: r.Abandoned, Held: r.Held}
}

// scrape reads the counters, once the service answers: it may have been killed a moment ago.
func (s service) scrape(ctx context.Context, base ledger.Stats) (Scraped, error) {
	for {
		found, err := s.scrapeOnce(ctx)
		if err == nil {
			found.Committed -= base.Committed
			found.Abandoned -= base.Abandoned
			found.Held -= base.Held
			found.Unfinished -= base.Waiting + base.Dispatched + base.Accepted
			found.OwedReceipts -= base.OwedReceipts
			return found, nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return found, fmt.Errorf("scrape the service: %w", err)
		}
	}
}

func (s service) scrapeOnce(ctx context.Context) (found Scraped, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.listen+"/metrics", nil)
	if err != nil {
		return found, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return found, fmt.Errorf("it answers %s", answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return found, err
	}
	sum := func(name, state string) (n int) {
		for _, m := range families[name].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "state" && state != "" && l.GetValue() != state {
					m = nil
					break
				}
			}
			n += int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
		return n
	}
	if sum("pawl_ledger_up", "") != 1 {
		return found, errors.New("the ledger did not answer the scrape")
	}
	found = Scraped{
		Committed: sum("pawl_ledger_committed_total", ""), Abandoned: sum("pawl_ledger_abandoned_total", ""),
		Held: sum("pawl_intents", "held"), OwedReceipts: sum("pawl_receipts_owed", ""),
	}
	found.Unfinished = sum("pawl_intents", "") - found.Held
	return found, nil
}
