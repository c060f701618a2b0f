package sqlite

import (
	"context"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

func (l *Ledger) Redrive(context.Context, ledger.Redrive) (ledger.ClaimResult, error) {
	return ledger.ClaimResult{}, errPending
}
func (l *Ledger) Links(context.Context, ledger.Key) (of, as string, err error) { return "", "", nil }
func (l *Ledger) Prune(context.Context, time.Duration, int, bool) (ledger.Pruned, error) {
	return ledger.Pruned{}, errPending
}
func (l *Ledger) Epochs(context.Context) ([]ledger.EpochRow, error) { return nil, errPending }
func (l *Ledger) OpenEpoch(context.Context, ledger.OpenEpoch) (ledger.EpochRow, error) {
	return ledger.EpochRow{}, errPending
}
