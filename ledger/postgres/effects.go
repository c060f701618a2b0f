package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// DefaultRecordLife is how long a recorded effect waits for its Finish where the caller names no time.
	DefaultRecordLife = 24 * time.Hour
	// tick is the least that a fence keeps for the commit of a recorded effect: its Finish may come at any time.
	tick = time.Microsecond
)

// local is one plain Go effect to insert, fence and stamp.
type local struct {
	key                        ledger.Key
	payload                    []byte
	lease                      *fence.Lease
	owner                      string
	ttl, commitBound, leftover time.Duration
}

// RecordOnce inserts an intent on the channel local and reports whether this caller was first. [ledger.Ledger].
func (l *Ledger) RecordOnce(ctx context.Context, tx ledger.Tx, runID, key string, expires time.Duration) (bool, error) {
	e, err := executorOf(tx)
	if err != nil {
		return false, err
	}
	if expires == 0 {
		expires = DefaultRecordLife
	}
	if expires < time.Millisecond {
		return false, &ledger.InvalidError{Field: "expires", Reason: "must be a millisecond or more"}
	}
	run := &executorSink{}
	_, first, err := l.beginLocal(ctx, e, run, local{
		key: ledger.Key{RunID: runID, EffectKey: ledger.ChannelLocal + ":" + key}, payload: []byte("null"), owner: ledger.RecordOwner,
		ttl: expires, commitBound: tick, leftover: tick,
	})
	if err == nil {
		err = run.exec(ctx, e)
	}
	if err != nil {
		return false, callerError(err, false)
	}
	return first, nil
}

// BeginGuard verifies the lease, inserts, fences and stamps in one transaction. [ledger.Ledger].
func (l *Ledger) BeginGuard(ctx context.Context, g ledger.GuardRequest) (ledger.Result, bool, error) {
	if g.TTL < time.Millisecond {
		return ledger.Result{}, false, &ledger.InvalidError{Field: "ttl", Reason: "must be a millisecond or more"}
	}
	if len(g.Payload) == 0 {
		g.Payload = []byte("null")
	}
	var result ledger.Result
	var first bool
	err := l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue("SELECT 1")
		if err := s.flush(ctx); err != nil {
			return err
		}
		e := &ownTx{conn: s.conn}
		var err error
		result, first, err = l.beginLocal(ctx, e, s, local{
			key: ledger.Key{RunID: g.RunID, EffectKey: ledger.ChannelLocal + ":" + g.Key}, payload: g.Payload, lease: g.Lease, owner: g.Owner,
			ttl: g.TTL, commitBound: min(l.timeout, g.TTL/4), leftover: min(time.Second, g.TTL/10),
		})
		if err != nil {
			if sqlState(err) == stateLeaseNeeded {
				return callerError(err, g.Lease != nil)
			}
			return err
		}
		return s.commit(ctx)
	})
	if err != nil {
		return ledger.Result{Intent: result.Intent}, false, err
	}
	return result, first, nil
}

// beginLocal inserts the intent and, if it is new, gathers its fence and stamp in out.
func (l *Ledger) beginLocal(ctx context.Context, e executor, out sink, g local) (ledger.Result, bool, error) {
	p, err := ledger.Prepare(ledger.Claim{
		RunID: g.key.RunID, EffectKey: g.key.EffectKey, Channel: ledger.ChannelLocal, Payload: g.payload, Lease: g.lease,
	})
	if err != nil {
		return ledger.Result{}, false, err
	}
	c := &claiming{l: l, e: e, prepared: []ledger.Prepared{p}, results: make([]ledger.ClaimResult, 1)}
	key := ledger.Key{RunID: p.RunID, EffectKey: p.EffectKey}
	c.places = map[ledger.Key][]int{key: {0}}
	if err := l.verifyUnleased(ctx, e, c.prepared); err != nil {
		return ledger.Result{}, false, err
	}
	var epoch int64
	clock := fmt.Sprintf(`SELECT clock_timestamp(), max(epoch) FROM %s`, l.table("ledger_epochs"))
	readClock := func(r rows) error { return r.Scan(&c.now, &epoch) }
	if err := each(ctx, e, readClock, clock); err != nil {
		return ledger.Result{}, false, err
	}
	if err := c.insert(ctx); err != nil {
		return ledger.Result{}, false, err
	}
	err = c.compare(ctx)
	result := ledger.Result{Intent: c.results[0].Intent, Now: c.now.UTC()}
	if err == nil {
		err = c.verifyLeases(ctx)
	}
	if err != nil || !c.fresh[key] {
		return result, false, err
	}
	// The insert may have waited for a duplicate that rolled back: the fence's time begins now.
	if err := each(ctx, e, readClock, clock); err != nil {
		return ledger.Result{}, false, err
	}
	row := locked{seq: c.seq, snap: ledger.Snapshot{
		Key: key, Found: true, Intent: c.results[0].Intent, Now: c.now.UTC(), LedgerID: l.id, Epoch: epoch,
	}}
	row.snap.Intent.DueAt = row.snap.Now // it is its caller's from the start
	w := &writer{l: l}
	fenced, err := ledger.Apply(row.snap, ledger.Fence{Owner: g.owner, TTL: g.ttl})
	if err != nil {
		return ledger.Result{}, false, err
	}
	if err := w.add(row, fenced); err != nil {
		return ledger.Result{}, false, err
	}
	w.queue(out)
	row.snap.Intent = fenced.Result.Intent
	stamped, err := ledger.Apply(row.snap, ledger.Stamp{
		Fence: row.snap.Intent.Fence(), Token: &channel.Token{Version: 1, Data: []byte(key.String())},
		Sheet:       channel.Sheet{Kind: ledger.ChannelLocal},
		SendTimeout: g.ttl - g.commitBound - g.leftover, CommitBound: g.commitBound, Margin: g.leftover,
	})
	if err != nil {
		return ledger.Result{}, false, err
	}
	w = &writer{l: l}
	if err := w.add(row, stamped); err != nil {
		return ledger.Result{}, false, err
	}
	w.queue(out)
	return stamped.Result, true, nil
}

// Finish ends a recorded intent as committed. [ledger.Ledger].
func (l *Ledger) Finish(ctx context.Context, runID, key string, result channel.Evidence) error {
	k := ledger.Key{RunID: runID, EffectKey: ledger.ChannelLocal + ":" + key}
	if err := checkKey(k); err != nil {
		return err
	}
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		row, err := s.load(ctx, k)
		switch {
		case err != nil:
			return err
		case !row.snap.Found:
			return fmt.Errorf("finish %s: %w", k, ledger.ErrNoIntent)
		case row.snap.Intent.State.Terminal():
			return fmt.Errorf("finish %s: %w", k, ledger.ErrTerminal)
		}
		change, err := ledger.Apply(row.snap, ledger.Finished(row.snap, result))
		if err != nil {
			return err
		}
		w := &writer{l: l}
		if err := w.add(row, change); err != nil {
			return err
		}
		return s.write(ctx, w)
	})
}

// executorSink keeps statements for a caller's transaction, their arrays as text, which every driver can pass.
type executorSink struct {
	sql  []string
	args [][]any
}

func (x *executorSink) put(sql string, args ...any) {
	for n, a := range args {
		args[n] = arrayText(a)
	}
	x.sql, x.args = append(x.sql, sql), append(x.args, args)
}

func (x *executorSink) exec(ctx context.Context, e executor) error {
	for n, sql := range x.sql {
		if _, err := e.exec(ctx, sql, x.args[n]...); err != nil {
			return err
		}
	}
	return nil
}
