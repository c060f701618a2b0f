package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// looksPerRound bounds one page of due looks; looksAtOnce how many are asked at the same time.
	looksPerRound = 200
	looksAtOnce   = 8
)

// reconcile looks at the channel's dispatched intents whose look is due, until stop ends.
func (e *Engine) reconcile(stop, hard context.Context, out *outlet) {
	pulse := e.vital.enter("reconcile", out.name, out.policy.ProbeTimeout+2*out.policy.CommitBound+e.options.PollEvery)
	defer e.vital.leave(pulse)
	out.looking.Store(pulse)
	silentAt := time.Now()
	for {
		pulse.progress()
		looked, err := e.reconcileDue(stop, hard, out)
		if err == nil && time.Since(silentAt) >= e.options.HeartbeatTimeout/4 {
			silentAt = time.Now()
			err = e.reconcileSilent(stop, hard, out)
		}
		if err != nil && stop.Err() == nil {
			e.log.Warn(EventLedger, "doing", "due looks", "error", err)
		}
		wait := e.options.PollEvery
		if looked >= looksPerRound && err == nil {
			wait = 0
		}
		if !sleep(stop, wait) {
			return
		}
	}
}

// reconcileSilent looks early at what an engine left that is not seen any more. A slow engine loses nothing by it: what it
// learns is late evidence.
func (e *Engine) reconcileSilent(stop, hard context.Context, out *outlet) error {
	if !out.ready() {
		return nil
	}
	keys, err := e.ledger.SilentLooks(stop, out.name, e.options.HeartbeatTimeout, out.policy.FenceTTL, looksPerRound)
	if err != nil {
		return err
	}
	e.lookAtAll(stop, hard, out, keys)
	return nil
}

// reconcileDue makes one round of due looks.
func (e *Engine) reconcileDue(stop, hard context.Context, out *outlet) (looked int, err error) {
	if !out.ready() {
		return 0, nil
	}
	keys, err := e.ledger.DueLooks(stop, []string{out.name}, looksPerRound)
	if err != nil {
		return 0, err
	}
	return e.lookAtAll(stop, hard, out, keys), nil
}

// lookAtAll looks at the intents, some at once, and returns at how many.
func (e *Engine) lookAtAll(stop, hard context.Context, out *outlet, keys []ledger.Key) (looked int) {
	slots := make(chan struct{}, looksAtOnce)
	var looks sync.WaitGroup
	defer looks.Wait()
	for _, k := range keys {
		if stop.Err() != nil {
			break
		}
		if !e.inflight.enter(k) { // ours, and under way
			continue
		}
		slots <- struct{}{}
		looked++
		looks.Go(func() {
			defer func() { <-slots }()
			defer e.inflight.leave(k)
			defer out.looking.Load().progress()
			if i, err := e.lookAt(hard, out, k); err != nil && hard.Err() == nil {
				e.log.WarnContext(InTrace(hard, i), EventLedger, append(attrs(i), "doing", "look", "error", err)...)
			}
		})
	}
	return looked
}

// lookAt takes a probing fence on one intent and settles it, as far as that is possible. With an error it returns what it knows of the
// intent.
func (e *Engine) lookAt(ctx context.Context, out *outlet, k ledger.Key) (ledger.Intent, error) {
	e.measure.looks.Add(ctx, 1, onChannel(out.name))
	defer e.measure.under(ctx, out.name, "look")()
	asked := time.Now()
	taken, err := e.ledger.Move(ctx, k, ledger.ProbeFence{
		Owner: e.options.Instance, TTL: out.policy.ProbeTimeout + out.policy.CommitBound + out.policy.Margin,
		ClockAllowance: e.options.ClockAllowance, HeartbeatTimeout: e.options.HeartbeatTimeout,
		Sheet: out.sheet, FenceTerm: out.policy.FenceTTL,
	})
	switch {
	case errors.Is(err, ledger.ErrFenceAlive), errors.Is(err, ledger.ErrTerminal), refusedFor(err, "nothing-to-probe"):
		return ledger.Intent{}, nil
	case err != nil:
		return ledger.Intent{Key: k, Channel: out.name}, err
	}
	ctx, span := e.startSpan(ctx, "pawl.reconcile", taken.Intent, trace.WithTimestamp(asked))
	defer span.End()
	if !taken.Applied {
		e.report(ctx, taken.Intent, EventLate)
		return taken.Intent, nil
	}
	l := look{row: taken.Intent, now: taken.Now, policy: out.policy, sheet: out.sheet, clockAllowance: e.options.ClockAllowance,
		tokens: len(taken.Tokens), firstPossible: taken.FirstPossible}
	next, r, err := e.settle(ctx, out, taken, l)
	// It was cancelled, with its run perhaps, or its token is spent: find out, but do not send it again.
	l.stopped, l.spent = refusedFor(err, "cancel-despite-doubt"), refusedFor(err, "token-life")
	if l.stopped || l.spent {
		next, r, err = e.settle(ctx, out, taken, l)
	}
	if lost(err) { // somebody settled it meanwhile
		e.measure.fenceLosses.Add(ctx, 1, onChannel(out.name))
		return taken.Intent, nil
	}
	if err != nil {
		failed(span, "not settled")
		return taken.Intent, err
	}
	if r.Intent.State != ledger.StateDispatched || r.Intent.Held() {
		e.measure.resolved(ctx, taken, r)
	}
	if next.event != EventHeld || !taken.Intent.Held() { // a held one that stays held is no news
		e.report(ctx, r.Intent, next.event)
	}
	if next.event == EventReopened {
		out.wake.wakeAll()
	}
	return r.Intent, nil
}

// settle decides, asks the channel where that is needed, and writes the decision.
func (e *Engine) settle(ctx context.Context, out *outlet, taken ledger.Result, l look) (step, ledger.Result, error) {
	next := l.decide()
	if next.probe {
		finding, err := e.probe(ctx, out, taken)
		if errors.Is(err, channel.ErrNotAsked) { // our own adapter's fault is no answer of the outside system's
			next = step{move: ledger.Probed{Fence: taken.Intent.Fence(), Look: out.policy.ProbeEvery, NotAsked: true}, event: EventProbed}
		} else {
			l.found = &finding
			next = l.decide()
		}
	}
	r, err := e.write(ctx, taken.Intent, next.move)
	return next, r, err
}

// probe asks the channel. Whatever goes wrong is an unknown finding, with the error.
func (e *Engine) probe(ctx context.Context, out *outlet, taken ledger.Result) (f channel.Finding, err error) {
	i := taken.Intent
	a := channel.Attempt{
		Intent: i.ForChannel(), Number: i.Attempts, Tokens: taken.Tokens, FirstSentAt: i.FirstSentAt, LastPossibleSend: i.LastPossibleSend,
	}
	if a.FirstSentAt.IsZero() { // an earlier life of the ledger may have sent it
		a.FirstSentAt = taken.FirstPossible
	}
	if i.Accepted() {
		ev := ledger.DecodeEvidence(i.Evidence)
		a.Accepted = &ev
	}
	if i.ProbeFirst && len(a.Tokens) == 0 && out.sheet.Token == channel.TokenDerived { // it is the same as the one that was lost
		t, _, err := e.makeToken(ctx, out, ledger.Dispatch{Intent: i}, 1)
		if err != nil {
			return channel.UnknownFinding(err.Error()), nil
		}
		a.Tokens = []channel.Token{t}
	}
	ctx, cancel := context.WithTimeout(ctx, out.policy.ProbeTimeout)
	defer cancel()
	a.NotAfter = time.Now().Add(out.policy.ProbeTimeout)
	ctx, span := e.measure.call(ctx, "probe", a.Intent, a.Number)
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			f = channel.UnknownFinding(fmt.Sprintf("the channel panicked: %v", p))
		}
		finding := findingOf(f, err)
		e.measure.probed(ctx, out.name, finding, time.Since(began))
		if span.SetAttributes(findingKey.String(finding)); err != nil {
			failed(span, finding)
		}
		span.End()
	}()
	if f, err = out.channel.Probe(ctx, a); err != nil {
		return channel.UnknownFinding(err.Error()), err
	}
	return f, nil
}

func refusedFor(err error, rule string) bool {
	var refused *ledger.RefusedError
	return errors.As(err, &refused) && refused.Rule == rule
}
