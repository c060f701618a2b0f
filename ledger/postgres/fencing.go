package postgres

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// maxFence bounds a batch: its rows stay locked for one transaction.
const maxFence = 1000

// Fence takes due intents in three round trips, whatever their number. Rows and lanes that somebody else holds are skipped. [ledger.Ledger].
func (l *Ledger) Fence(ctx context.Context, r ledger.FenceRequest) (ledger.FenceResult, error) {
	if r.Only != nil {
		if err := checkKey(*r.Only); err != nil {
			return ledger.FenceResult{}, err
		}
	} else if r.Channel == ledger.ChannelLocal || r.Limit <= 0 {
		return ledger.FenceResult{NextDue: -1}, nil // plain Go effects are sent by their callers
	}
	r.Limit = min(r.Limit, maxFence)
	var out ledger.FenceResult
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		b := &batch{l: l, s: s, request: r}
		out = ledger.FenceResult{NextDue: -1}
		if err := b.run(ctx); err != nil {
			return err
		}
		out = b.out
		return nil
	})
	if err != nil {
		return ledger.FenceResult{}, err
	}
	return out, nil
}

// batch is one fencing.
type batch struct {
	l       *Ledger
	s       *session
	request ledger.FenceRequest
	out     ledger.FenceResult

	resolved int64
	channels map[string]ledger.ChannelRow
	rows     []*intentRow
	beside   []around
	lanes    map[string]laneRow
	lease    *leaseRow

	w       writer
	waiting []int64  // queue rows whose turn has not come
	wanted  []string // their lanes: whoever has the turn may have been overlooked
}

type laneRow struct{ turn, number int64 }

func (b *batch) run(ctx context.Context) error {
	b.out.NextDue = -1
	if err := b.pick(ctx); err != nil {
		return err
	}
	if b.request.Only != nil && len(b.rows) == 0 {
		return b.missing(ctx)
	}
	if len(b.rows) > 0 {
		if err := b.look(ctx); err != nil {
			return err
		}
	}
	b.w.l = b.l
	for n, row := range b.rows {
		if err := b.take(ctx, row, b.beside[n]); err != nil {
			return err
		}
	}
	if len(b.waiting) > 0 {
		b.s.queue(b.l.sql.want, b.wanted)
		b.s.queue(b.l.sql.wait, b.waiting)
	}
	b.w.queue(b.s)
	if b.s.batch.Len() == 0 && b.resolved == 0 {
		return nil
	}
	return b.s.commit(ctx)
}

// pick locks the rows.
func (b *batch) pick(ctx context.Context) error {
	if b.request.Only != nil {
		var row *intentRow
		b.s.queueLock(*b.request.Only, true, &row)
		err := b.s.flush(ctx)
		if row != nil {
			b.rows = append(b.rows, row)
		}
		return err
	}
	s, q := b.s, &b.l.sql
	picked := 0
	s.queue(q.resolve).QueryRow(func(row pgx.Row) error { return row.Scan(&b.resolved) })
	b.queueChannels([]string{b.request.Channel})
	s.queue(q.pick, b.request.Channel, b.request.Limit).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			row := &intentRow{}
			var seq int64
			if err := rows.Scan(append(row.targets(), &seq)...); err != nil {
				return err
			}
			picked++
			if seq != row.seq { // not the intent's own row
				b.w.remove = append(b.w.remove, seq)
				continue
			}
			if err := row.finish(); err != nil {
				return err
			}
			b.rows = append(b.rows, row)
		}
		return rows.Err()
	})
	s.queue(q.nextDue, b.request.Channel).QueryRow(func(row pgx.Row) error {
		var next *time.Time
		if err := row.Scan(&b.out.Now, &next); err != nil {
			return err
		}
		b.out.Now = b.out.Now.UTC()
		if next != nil {
			b.out.NextDue = max(next.Sub(b.out.Now), 0)
		}
		return nil
	})
	if err := s.flush(ctx); err != nil {
		return err
	}
	row, known := b.channels[b.request.Channel]
	if !known {
		return fmt.Errorf("channel %q: %w", b.request.Channel, ledger.ErrUnknownChannel)
	}
	b.out.RatePerMinute = row.RatePerMinute
	if !row.Sends() {
		b.rows, b.out.NextDue = nil, -1
	} else if picked == b.request.Limit {
		b.out.NextDue = 0
	}
	return nil
}

func (b *batch) queueChannels(names []string) {
	b.s.queue(b.l.sql.channelsOf, jsonText(names)).Query(func(rows pgx.Rows) error {
		var err error
		b.channels, _, err = readChannels(pgxRows{rows})
		return err
	})
}

// look reads what stands beside the rows, and locks their lanes.
func (b *batch) look(ctx context.Context) error {
	s := b.s
	keys := make([]ledger.Key, len(b.rows))
	lanes := map[string]bool{}
	for n, row := range b.rows {
		keys[n] = row.intent.Key
		if row.intent.Lane != "" {
			lanes[row.intent.Lane] = true
		}
	}
	if len(lanes) > 0 {
		names := make([]string, 0, len(lanes))
		for lane := range lanes {
			names = append(names, lane)
		}
		sort.Strings(names)
		b.lanes = map[string]laneRow{}
		s.queue(b.l.sql.pickLanes, names).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var name string
				var lane laneRow
				if err := rows.Scan(&name, &lane.turn, &lane.number); err != nil {
					return err
				}
				b.lanes[name] = lane
			}
			return rows.Err()
		})
	}
	if b.request.Only != nil {
		b.queueChannels([]string{b.rows[0].intent.Channel})
	}
	if b.request.Lease != nil {
		b.s.queueLease(*b.request.Lease, &b.lease)
	}
	s.queueAround(keys, &b.beside)
	if err := s.flush(ctx); err != nil {
		return err
	}
	if b.request.Lease != nil && !b.lease.holds(*b.request.Lease) {
		return fence.ErrLost
	}
	if len(b.beside) != len(keys) {
		return fmt.Errorf("read what stands beside %d intents: got %d", len(keys), len(b.beside))
	}
	return nil
}

// take decides one row.
func (b *batch) take(ctx context.Context, row *intentRow, beside around) error {
	i := row.intent
	b.out.Now = beside.now
	lane, have := b.lanes[i.Lane]
	if i.Lane != "" && !i.LaneTurnEnded && !i.State.Terminal() {
		if !have {
			return nil // somebody moves the lane just now
		}
		if i.LanePosition > lane.turn {
			b.waiting, b.wanted = append(b.waiting, row.seq), append(b.wanted, i.Lane)
			return nil
		}
	}
	held := b.l.snapshot(i.Key, row, beside)
	channelRow, known := b.channels[i.Channel]
	held.snap.Paused = i.Channel != ledger.ChannelLocal && !channelRow.Sends()
	m := b.request.Fence
	if known && channelRow.ApprovalRequired {
		m.ApprovalRequired = true
	}
	change, err := b.s.decide(ctx, &b.w, held, m)
	if err != nil {
		if b.request.Only != nil {
			if errors.Is(err, ledger.ErrFenceLost) {
				return nil // it is dispatched already
			}
			return err
		}
		return b.refused(held, err)
	}
	if err := b.w.add(held, change); err != nil {
		return err
	}
	if !change.Result.Applied {
		b.out.Settled = append(b.out.Settled, change.Result.Intent)
		return nil
	}
	b.out.Dispatches = append(b.out.Dispatches, ledger.Dispatch{
		Intent: change.Result.Intent, Tokens: change.Result.Tokens, LaneNumber: lane.number + 1,
	})
	if i.Lane == "" {
		b.out.Dispatches[len(b.out.Dispatches)-1].LaneNumber = 0
	}
	return nil
}

// refused mends the hint of a row that cannot be fenced, so that it is not picked at every poll.
func (b *batch) refused(row locked, err error) error {
	var refusal *ledger.RefusedError
	switch {
	case errors.Is(err, ledger.ErrTerminal), errors.Is(err, ledger.ErrFenceLost):
	case errors.As(err, &refusal) && refusal.Rule == "not-due":
	case errors.As(err, &refusal) && refusal.Rule != "time-to-live":
		b.l.logger.Warn("an intent cannot be fenced", "intent", row.snap.Key.String(), "error", err)
		return nil
	default:
		return err
	}
	phase, due := hintOf(row.snap.Intent)
	if phase == ledger.PhaseDone {
		b.w.remove = append(b.w.remove, row.seq)
		return nil
	}
	b.w.upsert = append(b.w.upsert, queueRow{row.seq, row.snap.Key, row.snap.Intent.Channel, phase, due})
	return nil
}

// missing tells a row that is locked from one that is not there.
func (b *batch) missing(ctx context.Context) error {
	var there bool
	b.s.queue(fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE run_id = $1::uuid AND effect_key = $2), clock_timestamp()`, b.l.table("effect_intents")),
		b.request.Only.RunID, b.request.Only.EffectKey).QueryRow(func(row pgx.Row) error { return row.Scan(&there, &b.out.Now) })
	if err := b.s.flush(ctx); err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("fence %s: %w", b.request.Only, ledger.ErrNoIntent)
	}
	return nil
}
