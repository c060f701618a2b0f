package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

// settleLocal settles a plain Go effect whose caller is dead or has given it up: by late evidence if there is any, else by policy. There is
// nobody to ask. [ledger.ErrFenceAlive]: its caller may still be at it. One that has ended is returned as it is.
func settleLocal(ctx context.Context, l ledger.Ledger, k ledger.Key, m ledger.ProbeFence, unknown UnknownPolicy) (ledger.Intent, error) {
	taken, err := keepWriting(ctx, l, k, m)
	if errors.Is(err, ledger.ErrTerminal) {
		i, _, err := l.Intent(ctx, k)
		return i, err
	}
	if err != nil || !taken.Applied {
		return taken.Intent, err
	}
	own := taken.Intent.Fence()
	if !taken.Intent.InDoubt() { // late evidence says so
		r, err := keepWriting(ctx, l, k, ledger.Abandon{Fence: own, As: ledger.NeverSent, Reason: "its caller proved that it did nothing"})
		return r.Intent, err
	}
	const reason = "its caller died, or gave it up, and nothing can be asked what became of it"
	var move ledger.Move = ledger.Hold{Fence: own, Reason: reason, Look: DefaultHeldMax}
	if unknown == UnknownAbandon {
		move = ledger.Abandon{Fence: own, As: ledger.Unknown, Reason: reason, Policy: true}
	}
	r, err := keepWriting(ctx, l, k, move)
	return r.Intent, err
}

// settleLocals settles plain Go effects whose time is over: what was recorded and never finished ends as unknown; a guarded
// function whose process died is held, unless late evidence says how it ended.
func (e *Engine) settleLocals(ctx context.Context) (looked int, err error) {
	keys, err := e.ledger.DueLooks(ctx, []string{ledger.ChannelLocal}, looksPerRound)
	if err != nil {
		return 0, fmt.Errorf("due looks at plain Go effects: %w", err)
	}
	for _, k := range keys {
		if ctx.Err() != nil {
			break
		}
		before, _, err := e.ledger.Intent(ctx, k)
		if err != nil {
			return looked, err
		}
		policy := UnknownHold
		if before.FenceOwner == ledger.RecordOwner {
			policy = UnknownAbandon
		}
		looked++
		e.keeping.Load().progress()
		e.measure.looks.Add(ctx, 1, onChannel(ledger.ChannelLocal))
		i, err := settleLocal(ctx, e.ledger, k, ledger.ProbeFence{
			Owner: e.options.Instance, TTL: DefaultCommitBound + DefaultMargin, ClockAllowance: e.options.ClockAllowance,
		}, policy)
		switch {
		case errors.Is(err, ledger.ErrFenceAlive), lost(err): // its caller, or somebody else, is at it
		case err != nil:
			return looked, err
		case !before.Held() || !i.Held(): // a held one that stays held is no news
			e.report(InTrace(ctx, i), i, EventLate)
		}
	}
	return looked, nil
}

// keepWriting makes a move until the ledger answers or ctx ends.
func keepWriting(ctx context.Context, l ledger.Moves, k ledger.Key, m ledger.Move) (ledger.Result, error) {
	for n := 0; ; n++ {
		r, err := l.Move(ctx, k, m)
		if decided(err) || !sleep(ctx, doubled(50*time.Millisecond, n, 2*time.Second)) {
			return r, err
		}
	}
}
