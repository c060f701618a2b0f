package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

const selectEpochs = "SELECT ledger_id, epoch, opened_at, horizon, fence_term_us, opened_by, reason FROM ledger_epochs ORDER BY epoch"

func scanEpoch(scan func(...any) error) (ledger.EpochRow, error) {
	var e ledger.EpochRow
	var until time.Time
	var term int64
	if err := scan(&e.LedgerID, &e.Epoch, scanTime{&e.OpenedAt}, scanTime{&until}, &term, &e.By, &e.Reason); err != nil {
		return e, err
	}
	if until.After(e.OpenedAt) {
		e.Horizon = until.Sub(e.OpenedAt)
	}
	e.FenceTerm = time.Duration(term) * time.Microsecond
	return e, nil
}

// currentLife is the same for a whole transaction.
func (s *session) currentLife(ctx context.Context) (ledger.EpochRow, error) {
	if s.life.Epoch > 0 {
		return s.life, nil
	}
	err := s.each(ctx, selectEpochs+" DESC LIMIT 1", nil, func(scan func(...any) error) (err error) {
		s.life, err = scanEpoch(scan)
		return err
	})
	if err == nil && s.life.Epoch == 0 {
		err = ledger.ErrNotMigrated
	}
	if err != nil {
		return ledger.EpochRow{}, fmt.Errorf("read the ledger's epoch: %w", err)
	}
	return s.life, nil
}

// Epochs implements [ledger.Epochs].
func (l *Ledger) Epochs(ctx context.Context) (all []ledger.EpochRow, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, selectEpochs, nil, func(scan func(...any) error) error {
			e, err := scanEpoch(scan)
			all = append(all, e)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	return all, nil
}

// OpenEpoch implements [ledger.Epochs]. It has the write lock alone, so that no move of the old epoch is under way.
func (l *Ledger) OpenEpoch(ctx context.Context, o ledger.OpenEpoch) (opened ledger.EpochRow, err error) {
	if err := o.Check(); err != nil {
		return opened, fmt.Errorf("open epoch: %w", err)
	}
	o = o.Bounded()
	err = l.writer.inTx(ctx, func(ctx context.Context, s *session) error {
		opened, err = s.openEpoch(ctx, o)
		return err
	})
	if err != nil {
		return ledger.EpochRow{}, fmt.Errorf("open epoch: %w", err)
	}
	return opened, nil
}

func (s *session) openEpoch(ctx context.Context, o ledger.OpenEpoch) (ledger.EpochRow, error) {
	life, err := s.currentLife(ctx)
	if err != nil {
		return life, err
	}
	if life.Epoch != o.From {
		return life, fmt.Errorf("the present epoch is %d, not %d: %w", life.Epoch, o.From, ledger.ErrNumberMoved)
	}
	if _, err := s.exec(ctx, "UPDATE effect_intents SET probe_first = 1 WHERE state IN ('intent', 'dispatched') AND probe_first = 0"); err != nil {
		return life, fmt.Errorf("mark what has not ended: %w", err)
	}
	now, err := s.now(ctx)
	if err != nil {
		return life, err
	}
	opened := ledger.EpochRow{
		LedgerID: life.LedgerID, Epoch: life.Epoch + 1, OpenedAt: now, Horizon: o.Horizon.Truncate(time.Microsecond),
		FenceTerm: o.FenceTerm.Truncate(time.Microsecond), By: o.By, Reason: o.Reason,
	}
	var until any
	if opened.Horizon > 0 {
		until = timeText(now.Add(opened.Horizon))
	}
	_, err = s.exec(ctx, `INSERT INTO ledger_epochs (ledger_id, epoch, opened_at, horizon, fence_term_us, opened_by, reason) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		opened.LedgerID, opened.Epoch, timeText(now), until, opened.FenceTerm.Microseconds(), opened.By, opened.Reason)
	s.life = ledger.EpochRow{}
	return opened, err
}
