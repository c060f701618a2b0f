package core

import (
	"context"
	"os"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// scanPage is how many rows one page of the scan reads: enough to be quick, few enough to hold no snapshot long.
const scanPage = 500

func instance(o Options) fence.Instance {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return fence.Instance{ID: o.Instance, Host: host, Process: os.Getpid(), Version: o.Version, StartedAt: time.Now()}
}

// beat records one heartbeat.
func (e *Engine) beat(ctx context.Context, i fence.Instance, stopped bool) error {
	if stopped {
		i.StoppedAt = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.HeartbeatTimeout)
	defer cancel()
	if err := e.ledger.Heartbeat(ctx, i); err != nil {
		return err
	}
	now := time.Now()
	e.lastBeat.Store(&now)
	return nil
}

// heartbeat beats until ctx ends. A heartbeat that fails is tried again at the next beat: losing one only lets others look early.
func (e *Engine) heartbeat(ctx context.Context, i fence.Instance) {
	for sleep(ctx, e.options.HeartbeatEvery) {
		if err := e.beat(ctx, i, false); err != nil && ctx.Err() == nil {
			e.log.Warn(EventLedger, "doing", "heartbeat", "error", err)
		}
	}
}

// keep runs what must happen now and then: the scan that mends the queue, plain Go effects whose caller
// died, owed receipts, dead runs.
func (e *Engine) keep(ctx context.Context) {
	scan := time.NewTicker(e.options.ScanEvery)
	defer scan.Stop()
	owed := time.NewTicker(e.options.OwedEvery)
	defer owed.Stop()
	e.scanLogged(ctx)
	e.settleLocalsLogged(ctx)
	e.payOwed(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-scan.C:
			e.scanLogged(ctx)
			e.settleLocalsLogged(ctx)
			e.reclaimRuns(ctx)
		case <-owed.C:
			e.payOwed(ctx)
		}
	}
}

func (e *Engine) scanLogged(ctx context.Context) {
	if _, err := e.scan(ctx); err != nil && ctx.Err() == nil {
		e.log.Warn(EventLedger, "doing", "scan", "error", err)
	}
}

func (e *Engine) settleLocalsLogged(ctx context.Context) {
	if _, err := e.settleLocals(ctx); err != nil && ctx.Err() == nil {
		e.log.Warn(EventLedger, "doing", "settle plain Go effects", "error", err)
	}
}

// scan walks the whole ledger once. A page that fails is skipped over only by the ledger's own cursor: an error ends this
// walk, and the next one begins again.
func (e *Engine) scan(ctx context.Context) (repaired int, err error) {
	var after ledger.Key
	for {
		page, err := e.ledger.Scan(ctx, after, scanPage)
		if err != nil {
			return repaired, err
		}
		repaired += page.Repaired
		if page.Done {
			break
		}
		after = page.Next
	}
	if repaired > 0 {
		e.log.Warn(EventQueueMended, "rows", repaired)
		for _, out := range e.channels.all() {
			out.wake.wakeAll()
		}
	}
	return repaired, nil
}

func (e *Engine) payOwed(ctx context.Context) {
	for {
		paid, owed, err := e.ledger.PayReceipts(ctx, 100)
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn(EventLedger, "doing", "owed receipts", "error", err)
			}
			return
		}
		if paid == 0 {
			return
		}
		e.log.Info(EventReceiptsPaid, "paid", paid, "owed", owed)
	}
}

func (e *Engine) reclaimRuns(ctx context.Context) {
	if !e.options.ReclaimRuns {
		return
	}
	runs, err := e.ledger.ReclaimDead(ctx, fence.ReclaimOptions{
		ClockAllowance: e.options.ClockAllowance, HeartbeatTimeout: e.options.HeartbeatTimeout, ReclaimCeiling: e.options.ReclaimCeiling,
	})
	if err != nil && ctx.Err() == nil {
		e.log.Warn(EventLedger, "doing", "reclaim dead runs", "error", err)
	}
	for _, r := range runs {
		e.log.Info(EventRunReclaimed, "run_id", r.ID, "status", r.Status, "retries", r.Retries)
	}
}

// sleep waits and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
