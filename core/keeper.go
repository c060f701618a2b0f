package core

import (
	"context"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

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
	pulse := e.vital.enter("heartbeat", "", e.options.HeartbeatEvery+e.options.HeartbeatTimeout)
	defer e.vital.leave(pulse)
	for sleep(ctx, e.options.HeartbeatEvery) {
		pulse.progress()
		if err := e.beat(ctx, i, false); err != nil && ctx.Err() == nil {
			e.vital.retry() // a ledger that does not answer is no reason to start the process again
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
	pulse := e.vital.enter("keep", "", min(e.options.ScanEvery, e.options.OwedEvery)+DefaultCommitBound)
	defer e.vital.leave(pulse)
	e.keeping.Store(pulse)
	e.scanLogged(ctx)
	e.settleLocalsLogged(ctx)
	e.payOwed(ctx)
	for {
		pulse.progress()
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
		e.keeping.Load().progress()
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
		e.measure.queueMended.Add(ctx, int64(repaired))
		e.log.Warn(EventQueueMended, "rows", repaired)
		for _, out := range e.channels.all() {
			out.wake.wakeAll()
		}
	}
	return repaired, nil
}

func (e *Engine) payOwed(ctx context.Context) {
	for {
		e.keeping.Load().progress()
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
		e.measure.receiptsPaid.Add(ctx, int64(paid))
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
		e.measure.runsReclaimed.Add(ctx, 1, metric.WithAttributes(attribute.String("status", string(r.Status))))
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
