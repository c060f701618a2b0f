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
	results, err := e.claim(ctx, claims...)
	if err == nil {
		for _, c := range claims {
			e.Wake(c.Channel)
		}
	}
	return results, err
}

// Claim claims in a transaction of its own, without an engine. All claims are taken or none: a key conflict rolls back. A claim that names
// no trace gets that of ctx.
func Claim(ctx context.Context, l ledger.Claims, claims ...ledger.Claim) (results []ledger.ClaimResult, err error) {
	claims = inTrace(ctx, claims)
	err = l.InTx(ctx, func(tx ledger.Tx) error {
		results, err = l.Claim(ctx, tx, claims...)
		return err
	})
	return results, err
}

// Wake makes the channel's dispatcher look now instead of at its next poll.
func (e *Engine) Wake(channelName string) {
	if out := e.channels.get(channelName); out != nil {
		out.wake.wakeAll()
	}
}

// Do claims and sends in the caller's goroutine, and returns what it came to. It is for the holder of a run's lease, which is
// verified in the fence's transaction; without a lease it is verified that nothing else holds the intent. An effect that was claimed
// before is not sent again: the outcome says what became of it. Readiness, flag, pause and shared rate count as for a dispatcher. Do
// returns when the intent has ended or is held, or when ctx ends; a send under way is not cancelled by ctx.
//
// With an error the outcome is what was known last, and the intent stands as it was claimed: with a lease that is lost
// ([fence.ErrLost]) a dispatcher sends it.
func (e *Engine) Do(ctx context.Context, c ledger.Claim) (Outcome, error) {
	if e.channels.get(c.Channel) == nil {
		return Outcome{}, errNoChannel(c.Channel)
	}
	results, err := e.claim(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	last, deduplicated := results[0].Intent, results[0].Status == ledger.ClaimDeduplicated
	for n := 0; ; n++ {
		woken := e.settled.wait()
		if err := e.sendInline(ctx, last, c.Lease); err != nil {
			return outcome(last, deduplicated), err
		}
		i, err := e.now(ctx, last.Key)
		switch {
		case err == nil:
			last = i
			if ended(i) {
				return outcome(i, deduplicated), nil
			}
		case errors.Is(err, ledger.ErrNoIntent):
			return outcome(last, deduplicated), err
		}
		pause(ctx, woken, doubled(20*time.Millisecond, n, time.Second))
		if err := ctx.Err(); err != nil {
			return outcome(last, deduplicated), err
		}
	}
}

// now reads the row, also when ctx has ended: what was sent meanwhile is worth knowing.
func (e *Engine) now(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultCommitBound)
	defer cancel()
	i, _, err := e.ledger.Intent(ctx, k)
	return i, err
}

// sendInline takes the one intent, if it can be taken now, and sends it. The key may have been claimed on another channel than the
// caller names: it is sent on its own.
func (e *Engine) sendInline(ctx context.Context, i ledger.Intent, lease *fence.Lease) error {
	out := e.channels.get(i.Channel)
	if out == nil || i.State != ledger.StateIntent || !out.ready() || !e.inflight.enter(i.Key) {
		return nil
	}
	defer e.inflight.leave(i.Key)
	row, err := e.ledger.ChannelRow(ctx, out.name)
	if err != nil {
		return fmt.Errorf("read channel %s: %w", out.name, err)
	}
	if !row.Sends() {
		return nil
	}
	if row.RatePerMinute > 0 {
		granted, _, err := e.ledger.TakeRate(ctx, out.name, 1)
		if err != nil {
			return fmt.Errorf("take the rate of channel %s: %w", out.name, err)
		}
		if granted == 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Not ctx: a fence whose COMMIT is given up half-way may have been taken, and nobody would use it until it is dead.
	fencing, cancel := context.WithTimeout(context.WithoutCancel(ctx), out.policy.CommitBound)
	defer cancel()
	asked := time.Now()
	r, err := e.ledger.Fence(fencing, ledger.FenceRequest{Fence: e.fenceFor(out), Channel: out.name, Limit: 1, Only: &i.Key, Lease: lease})
	var refused *ledger.RefusedError // paused meanwhile, or not due yet
	switch {
	case errors.As(err, &refused), errors.Is(err, ledger.ErrTerminal):
		return nil
	case err != nil:
		return fmt.Errorf("fence: %w", err)
	}
	for _, settled := range r.Settled {
		e.report(InTrace(ctx, settled), settled, EventReopened)
	}
	e.measure.starts.Add(ctx, int64(len(r.Dispatches)), onChannel(out.name))
	for _, d := range r.Dispatches {
		e.send(context.WithoutCancel(ctx), out, dispatched{d, asked})
	}
	return nil
}

// Wait returns when the intent has ended or is held, or ctx ends; with the intent as it is then, and ctx's error in the
// last case. An engine need not be running here: Wait also polls.
func (e *Engine) Wait(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
	return wait(ctx, e.ledger, k, e.settled.wait, ended)
}

// Wait is [Engine.Wait] without an engine.
func Wait(ctx context.Context, l ledger.Reader, k ledger.Key) (ledger.Intent, error) {
	return waitFor(ctx, l, k, ended)
}

func ended(i ledger.Intent) bool { return i.State.Terminal() || i.Held() }

func waitFor(ctx context.Context, l ledger.Reader, k ledger.Key, enough func(ledger.Intent) bool) (ledger.Intent, error) {
	return wait(ctx, l, k, func() <-chan struct{} { return nil }, enough)
}

func wait(ctx context.Context, l ledger.Reader, k ledger.Key, settled func() <-chan struct{}, enough func(ledger.Intent) bool) (ledger.Intent, error) {
	var last ledger.Intent
	for n := 0; ; n++ {
		woken := settled()
		i, _, err := l.Intent(ctx, k)
		switch {
		case err == nil:
			last = i
			if enough(i) {
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
