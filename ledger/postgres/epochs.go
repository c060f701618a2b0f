package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

const epochColumns = `ledger_id::text, epoch, opened_at, (extract(epoch FROM horizon) * 1000000)::bigint,
(extract(epoch FROM fence_term) * 1000000)::bigint, opened_by, reason`

func scanEpoch(scan func(...any) error) (ledger.EpochRow, error) {
	var e ledger.EpochRow
	var horizon, term int64
	err := scan(&e.LedgerID, &e.Epoch, &e.OpenedAt, &horizon, &term, &e.By, &e.Reason)
	e.OpenedAt = e.OpenedAt.UTC()
	e.Horizon, e.FenceTerm = time.Duration(horizon)*time.Microsecond, time.Duration(term)*time.Microsecond
	return e, err
}

// Epochs returns all lives of the ledger, oldest first. [ledger.Ledger].
func (l *Ledger) Epochs(ctx context.Context) ([]ledger.EpochRow, error) {
	var all []ledger.EpochRow
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(fmt.Sprintf(`SELECT %s FROM %s ORDER BY epoch`, epochColumns, l.table("ledger_epochs"))).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				e, err := scanEpoch(rows.Scan)
				if err != nil {
					return err
				}
				all = append(all, e)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// OpenEpoch begins a new life of the ledger. It takes as long as marking every intent that lives takes; ctx bounds it. Moves that are under
// way under the old epoch are waited for, row by row; an intent that is marked too late all the same, or not at all, is told by its epoch:
// see [ledger.Snapshot]. [ledger.Ledger].
func (l *Ledger) OpenEpoch(ctx context.Context, o ledger.OpenEpoch) (opened ledger.EpochRow, err error) {
	if err := o.Check(); err != nil {
		return opened, fmt.Errorf("open epoch: %w", err)
	}
	o = o.Bounded()
	err = l.InTx(ctx, func(tx ledger.Tx) error {
		e, err := executorOf(tx)
		if err != nil {
			return err
		}
		opened, err = l.openEpoch(ctx, e, o)
		return err
	})
	if err != nil {
		return ledger.EpochRow{}, fmt.Errorf("open epoch: %w", err)
	}
	return opened, nil
}

func (l *Ledger) openEpoch(ctx context.Context, e executor, o ledger.OpenEpoch) (opened ledger.EpochRow, err error) {
	for _, sql := range []string{
		`SELECT set_config('statement_timeout', '0', true)`,
		`LOCK TABLE ` + l.table("ledger_epochs") + ` IN SHARE ROW EXCLUSIVE MODE`, // two openings take turns; readers wait for nobody
	} {
		if _, err := e.exec(ctx, sql); err != nil {
			return opened, err
		}
	}
	var present int64
	err = each(ctx, e, func(r rows) error { return r.Scan(&present) }, `SELECT max(epoch) FROM `+l.table("ledger_epochs"))
	if err != nil {
		return opened, err
	}
	if present != o.From {
		return opened, fmt.Errorf("the present epoch is %d, not %d: %w", present, o.From, ledger.ErrNumberMoved)
	}
	if _, err := e.exec(ctx, fmt.Sprintf(`UPDATE %s i SET probe_first = true FROM %s q WHERE i.run_id = q.run_id AND i.effect_key = q.effect_key
AND i.state IN ('intent', 'dispatched') AND NOT i.probe_first`, l.table("effect_intents"), l.table("dispatch_queue"))); err != nil {
		return opened, err
	}
	err = each(ctx, e, func(r rows) (err error) {
		opened, err = scanEpoch(r.Scan)
		return err
	}, fmt.Sprintf(`INSERT INTO %[1]s (ledger_id, epoch, opened_at, horizon, fence_term, opened_by, reason)
SELECT ledger_id, epoch + 1, clock_timestamp(), $2::bigint * interval '1 microsecond', $3::bigint * interval '1 microsecond', $4, $5
FROM %[1]s WHERE epoch = $1 RETURNING %[2]s`, l.table("ledger_epochs"), epochColumns),
		o.From, o.Horizon.Microseconds(), o.FenceTerm.Microseconds(), o.By, o.Reason)
	return opened, err
}
