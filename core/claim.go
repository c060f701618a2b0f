package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Outcome is what a caller is told of an effect: a state, not an error.
type Outcome struct {
	Intent       ledger.Intent
	Deduplicated bool
	// Text says it in words: "committed", "in progress", "held as unknown, do not retry", "abandoned: …".
	Text string
}

func outcome(i ledger.Intent, deduplicated bool) Outcome {
	return Outcome{Intent: i, Deduplicated: deduplicated, Text: i.Outcome()}
}

// Claim claims in a transaction of its own and wakes the dispatchers. A program that changes state of its own together with
// the claim calls the ledger's Claim in its own transaction, and Wake after the commit.
func (e *Engine) Claim(ctx context.Context, claims ...ledger.Claim) ([]ledger.ClaimResult, error) {
	results, err := Claim(ctx, e.ledger, claims...)
	if err == nil {
		for _, c := range claims {
			e.Wake(c.Channel)
		}
	}
	return results, err
}

// Claim claims in a transaction of its own, without an engine. All claims are taken or none: a key conflict rolls back.
func Claim(ctx context.Context, l ledger.Claims, claims ...ledger.Claim) (results []ledger.ClaimResult, err error) {
	err = l.InTx(ctx, func(tx ledger.Tx) error {
		results, err = l.Claim(ctx, tx, claims...)
		return err
	})
	return results, err
}

// Wake makes the channel's dispatcher look now instead of at its next poll.
func (e *Engine) Wake(channelName string) {
	if out := e.channels[channelName]; out != nil {
		out.wake.wakeAll()
	}
}

// Do claims and sends in the caller's goroutine, and returns what it came to. It is for the holder of a run's lease, which is
// verified in the fence's transaction; without a lease it is verified that nothing else holds the intent. An effect that was claimed
// before is not sent again: the outcome says what became of it. Do returns when the intent has ended or is held, or when ctx
// ends; a send under way is not cancelled by ctx.
func (e *Engine) Do(ctx context.Context, c ledger.Claim) (Outcome, error) {
	out := e.channels[c.Channel]
	if out == nil {
		return Outcome{}, fmt.Errorf("channel %s is not configured in this engine", c.Channel)
	}
	results, err := Claim(ctx, e.ledger, c)
	if err != nil {
		return Outcome{}, err
	}
	r := results[0]
	if err := e.sendInline(ctx, out, r.Key, c.Lease); err != nil {
		return Outcome{}, err
	}
	i, err := e.Wait(ctx, r.Key)
	return outcome(i, r.Status == ledger.ClaimDeduplicated), err
}

// sendInline takes the one intent, if it can be taken, and sends it.
func (e *Engine) sendInline(ctx context.Context, out *outlet, k ledger.Key, lease *fence.Lease) error {
	if !e.inflight.enter(k) {
		return nil
	}
	defer e.inflight.leave(k)
	asked := time.Now()
	r, err := e.ledger.Fence(ctx, ledger.FenceRequest{Fence: e.fenceFor(out), Channel: out.name, Limit: 1, Only: &k, Lease: lease})
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	for _, d := range r.Dispatches {
		e.send(context.WithoutCancel(ctx), out, dispatched{d, asked})
	}
	return nil
}

// Wait returns when the intent has ended or is held, or ctx ends; with the intent as it is then, and ctx's error in the
// last case. An engine need not be running here: Wait also polls.
func (e *Engine) Wait(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
	return wait(ctx, e.ledger, k, e.settled.wait)
}

// Wait is [Engine.Wait] without an engine.
func Wait(ctx context.Context, l ledger.Reader, k ledger.Key) (ledger.Intent, error) {
	return wait(ctx, l, k, func() <-chan struct{} { return nil })
}

func wait(ctx context.Context, l ledger.Reader, k ledger.Key, settled func() <-chan struct{}) (ledger.Intent, error) {
	var last ledger.Intent
	for n := 0; ; n++ {
		woken := settled()
		i, _, err := l.Intent(ctx, k)
		switch {
		case err == nil:
			last = i
			if i.State.Terminal() || i.Held() {
				return i, nil
			}
		case errors.Is(err, ledger.ErrNoIntent):
			return last, err
		case ctx.Err() != nil:
			return last, ctx.Err()
		}
		pause(ctx, woken, doubled(20*time.Millisecond, n, time.Second))
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
	}
}
