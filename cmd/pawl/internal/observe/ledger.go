package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// readTimeout bounds what a scrape waits for the ledger.
const readTimeout = 2 * time.Second

// EventLedgerUnread says that a scrape got nothing from the ledger.
const EventLedgerUnread = "metrics.ledger_unread"

// Ledger is what a scrape asks of a ledger.
type Ledger interface {
	Stats(ctx context.Context) (ledger.Stats, error)
	ChannelRows(ctx context.Context) ([]ledger.ChannelRow, error)
	Instances(ctx context.Context) ([]fence.Instance, error)
	Epoch(ctx context.Context) (int64, error)
}

// facts is what one reading found.
type facts struct {
	stats     ledger.Stats
	channels  []ledger.ChannelRow
	instances []fence.Instance
	epoch     int64
	took      time.Duration
	err       error
}

// reader reads a ledger for scrapes. However many ask, and however long the ledger is silent, one question is under way at most.
type reader struct {
	ledger Ledger
	logger *slog.Logger
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu     sync.Mutex
	under  *reading // under way now
	closed bool
	silent bool // the last reading failed: the log has been told
}

// reading is one question, which any number of scrapes share.
type reading struct {
	done  chan struct{}
	facts facts // read after done
}

func newReader(l Ledger, logger *slog.Logger) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	return &reader{ledger: l, logger: logger, ctx: ctx, cancel: cancel}
}

// close waits for a question that is under way.
func (r *reader) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.asking.Wait()
}

var errSilent = errors.New("the ledger does not answer")

// read asks the ledger, for at most readTimeout, even of a ledger that minds no deadline.
func (r *reader) read() facts {
	began := time.Now()
	t := time.NewTimer(readTimeout)
	defer t.Stop()
	now := r.ask()
	if now == nil {
		return facts{err: errors.New("closed")}
	}
	f := facts{err: errSilent, took: readTimeout}
	select {
	case <-now.done:
		f = now.facts
		f.took = time.Since(began)
	case <-t.C:
	case <-r.ctx.Done():
	}
	r.say(f.err)
	return f
}

// ask begins a question, or joins the one that is under way.
func (r *reader) ask() *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.under != nil {
		return r.under
	}
	now := &reading{done: make(chan struct{})}
	r.under = now
	r.asking.Go(func() {
		now.facts = r.fetch()
		r.mu.Lock()
		r.under = nil
		r.mu.Unlock()
		close(now.done)
	})
	return now
}

func (r *reader) fetch() (f facts) {
	ctx, cancel := context.WithTimeout(r.ctx, readTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a scrape must not end the process that sends
			f.err = fmt.Errorf("reading the ledger panicked: %v\n%s", p, debug.Stack())
		}
	}()
	var errs [4]error
	f.stats, errs[0] = r.ledger.Stats(ctx)
	if errs[0] == nil { // else three more questions would wait as long
		f.channels, errs[1] = r.ledger.ChannelRows(ctx)
		f.instances, errs[2] = r.ledger.Instances(ctx)
		f.epoch, errs[3] = r.ledger.Epoch(ctx)
	}
	f.err = errors.Join(errs[:]...)
	return f
}

// say logs the first of several failures.
func (r *reader) say(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.silent && !r.closed {
		r.logger.Warn(EventLedgerUnread, "error", err)
	}
	r.silent = err != nil
}

func (s *Observe) watchLedger(meter metric.Meter, r *reader, heartbeatTimeout time.Duration) error {
	g := &gauges{meter: meter}
	up := g.count("pawl.ledger.up", "1 if the ledger answered this scrape, else 0; without an answer the other gauges of the ledger are left out")
	took := g.seconds("pawl.ledger.read_duration", "What this scrape waited for the ledger")
	epoch := g.count("pawl.ledger.epoch", "The ledger's present epoch")
	intents := g.count("pawl.intents", "Intents in the ledger that have not ended, by state")
	waiting := g.seconds("pawl.oldest_waiting", "How long the oldest intent has been due that waits for a send; 0: none waits")
	unresolved := g.seconds("pawl.oldest_unresolved", "How long the oldest dispatched intent has been so: since its stamp, or since the end of a fence without one; 0: there is none")
	unknown := g.seconds("pawl.oldest_unknown", "How long the oldest held intent has waited for a person; 0: none is held")
	committed := g.total("pawl.ledger.committed", "Intents in the ledger that ended as committed")
	abandoned := g.total("pawl.ledger.abandoned", "Intents in the ledger that ended as abandoned")
	owed := g.count("pawl.receipts.owed", "Receipts that could not be signed yet")
	alive := g.count("pawl.engines.alive", "Engines whose heartbeat is fresh, on the ledger's clock")
	paused := g.count("pawl.channel.paused", "1 while the channel is paused, by a person or by an engine, else 0")
	flag := g.count("pawl.channel.flag", "The channel's flag; always 1")
	return s.watch(meter, g, func(_ context.Context, o metric.Observer) error {
		f := r.read()
		o.ObserveInt64(up, oneIf(f.err == nil))
		o.ObserveFloat64(took, f.took.Seconds())
		if f.err != nil {
			return nil
		}
		o.ObserveInt64(epoch, f.epoch)
		o.ObserveInt64(committed, int64(f.stats.Committed))
		o.ObserveInt64(abandoned, int64(f.stats.Abandoned))
		o.ObserveInt64(owed, int64(f.stats.OwedReceipts))
		o.ObserveInt64(alive, int64(aliveOf(f.instances, heartbeatTimeout)))
		for name, c := range byChannel(f) {
			on := onChannel(name)
			for state, n := range map[string]int{"waiting": c.Waiting, "dispatched": c.Dispatched, "accepted": c.Accepted, "held": c.Held} {
				o.ObserveInt64(intents, int64(n), metric.WithAttributes(attribute.String("channel", name), attribute.String("state", state)))
			}
			o.ObserveFloat64(waiting, c.OldestWaiting.Seconds(), on)
			o.ObserveFloat64(unresolved, c.OldestUnresolved.Seconds(), on)
			o.ObserveFloat64(unknown, c.OldestUnknown.Seconds(), on)
		}
		for _, row := range f.channels {
			o.ObserveInt64(paused, oneIf(row.Paused), onChannel(row.Name))
			o.ObserveInt64(flag, 1, metric.WithAttributes(attribute.String("channel", row.Name), attribute.String("flag", string(row.Flag))))
		}
		return nil
	})
}

// byChannel has a row for every channel that the ledger knows, also for those with nothing to count: a gauge that vanishes when it
// becomes 0 looks like one that cannot be read.
func byChannel(f facts) map[string]ledger.ChannelStats {
	all := map[string]ledger.ChannelStats{}
	for _, row := range f.channels {
		all[row.Name] = ledger.ChannelStats{}
	}
	for name, c := range f.stats.Channels {
		all[name] = c
	}
	return all
}

func aliveOf(all []fence.Instance, timeout time.Duration) (n int) {
	for _, i := range all {
		if i.StoppedAt.IsZero() && i.Age <= timeout {
			n++
		}
	}
	return n
}
