package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Intent returns an intent with all that is known of it.
func (s *Service) Intent(ctx context.Context, k pawlclient.Key, withPayload bool) (pawlclient.Detail, error) {
	key, err := keyOf(k)
	if err != nil {
		return pawlclient.Detail{}, err
	}
	d, err := s.detail(ctx, key, withPayload)
	return d, problem(err, "path")
}

func (s *Service) detail(ctx context.Context, k ledger.Key, withPayload bool) (d pawlclient.Detail, err error) {
	i, tokens, err := s.ledger.Intent(ctx, k)
	if err != nil {
		return d, err
	}
	d.Intent, d.Tokens = ViewIntent(i), viewTokens(tokens)
	if withPayload {
		d.Payload = rawJSON(i.Payload)
	}
	if d.Intent.RedriveOf, d.Intent.RedrivenAs, err = s.ledger.Links(ctx, k); err != nil {
		return d, err
	}
	entries, err := s.ledger.Log(ctx, k)
	if err != nil {
		return d, err
	}
	d.Log = viewLog(entries)
	late, err := s.ledger.LateEvidence(ctx, k)
	if err != nil {
		return d, err
	}
	d.Late = viewLate(late)
	stored, err := s.ledger.ReceiptsOf(ctx, k)
	d.Receipts = viewReceipts(stored)
	return d, err
}

// Intents lists intents, newest claim first.
func (s *Service) Intents(ctx context.Context, f pawlclient.IntentFilter) (pawlclient.IntentPage, error) {
	page := pawlclient.IntentPage{Intents: []pawlclient.Intent{}}
	filter := ledger.Filter{Channel: f.Channel, State: ledger.State(f.State), Held: f.Held, Limit: f.Limit, After: ledger.Cursor(f.After)}
	if err := checkPage(f.Limit, f.After); err != nil {
		return page, err
	}
	if err := checkText("query.channel", f.Channel, maxKey); err != nil {
		return page, err
	}
	states := []ledger.State{"", ledger.StateIntent, ledger.StateDispatched, ledger.StateCommitted, ledger.StateAbandoned}
	if !slices.Contains(states, filter.State) {
		return page, invalid("query.state", "must be intent, dispatched, committed or abandoned")
	}
	if f.RunID != "" {
		run, err := runID("query.run_id", f.RunID)
		if err != nil {
			return page, err
		}
		filter.RunID = run
	}
	found, next, err := s.ledger.Intents(ctx, filter)
	if err != nil {
		return page, problem(err, "query")
	}
	for _, i := range found {
		page.Intents = append(page.Intents, ViewIntent(i))
	}
	page.Next = string(next)
	return page, nil
}

// Wait returns when the intent has ended or is held, or after timeout with what is known then. A timeout of 0 only looks.
func (s *Service) Wait(ctx context.Context, k pawlclient.Key, timeout time.Duration) (pawlclient.Intent, error) {
	return s.waitUntil(ctx, k, timeout, nil)
}

// waitUntil is Wait, which also returns if stop is closed.
func (s *Service) waitUntil(ctx context.Context, k pawlclient.Key, timeout time.Duration, stop <-chan struct{}) (pawlclient.Intent, error) {
	key, err := keyOf(k)
	if err != nil {
		return pawlclient.Intent{}, err
	}
	i, _, err := s.ledger.Intent(ctx, key)
	if err != nil || timeout <= 0 || i.State.Terminal() || i.Held() {
		return ViewIntent(i), problem(err, "path")
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if stop != nil {
		done := make(chan struct{})
		defer func() { cancel(); <-done }()
		go func() {
			defer close(done)
			select {
			case <-stop:
				cancel()
			case <-waiting.Done():
			}
		}()
	}
	last, err := s.await(waiting, key)
	over := waiting.Err() != nil || errors.Is(err, context.DeadlineExceeded) // its own time, or that of a service that stops
	if err != nil && (!over || ctx.Err() != nil) {
		return pawlclient.Intent{}, problem(err, "path")
	}
	if last.RunID == "" { // no look came back in time
		last = i
	}
	return ViewIntent(last), nil
}
