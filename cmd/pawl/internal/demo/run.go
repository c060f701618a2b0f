package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

// sendTime is about how long one send takes here; kills fall anywhere within it.
const sendTime = 25 * time.Millisecond

// heldPatience is several times the wait between two looks at a held intent.
const heldPatience = 10 * time.Second

// demo is one run.
type demo struct {
	options   Options
	out       io.Writer // progress
	dir       string
	world     world
	ledger    ledger.Ledger
	engine    *engine
	service   service // with --serve
	tracker   tracker
	runID     string
	keys      []ledger.Key
	claimed   atomic.Int64
	kills     atomic.Int64
	began     time.Time
	progress  progress
	held      int // how many were held when that last changed
	heldSince time.Time
	base      ledger.Stats // what the ledger held before: it may be used by others' demos
}

// stats counts what came after the start.
func (d *demo) stats(ctx context.Context) (ledger.Stats, error) {
	s, err := d.ledger.Stats(ctx)
	s.Waiting -= d.base.Waiting
	s.Dispatched -= d.base.Dispatched
	s.Accepted -= d.base.Accepted
	s.Held -= d.base.Held
	s.Committed -= d.base.Committed
	s.Abandoned -= d.base.Abandoned
	return s, err
}

// Run runs the demo and returns what came of it. The error is for a demo that could not be carried through; what it found is in
// the result.
func Run(ctx context.Context, o Options, progressTo io.Writer) (r Result, err error) {
	if err := o.validate(); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the demo did not end within --timeout %s", o.Timeout))
	defer cancel()
	dir, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		return r, err
	}
	d := &demo{options: o, out: progressTo, dir: dir, runID: uuid.NewString(), began: time.Now()}
	defer func() {
		if err == nil && r.Good() && !o.Keep {
			_ = os.RemoveAll(dir)
		} else {
			r.Directory = dir
		}
	}()
	if err := d.open(ctx); err != nil {
		return r, errors.Join(err, d.close())
	}
	r, err = d.run(ctx)
	return r, errors.Join(err, d.close())
}

func (d *demo) open(ctx context.Context) (err error) {
	if d.world, err = openWorld(ctx, d.options, d.dir); err != nil {
		return err
	}
	url := d.options.Ledger
	if url == "" {
		url = "sqlite:" + filepath.Join(d.dir, "ledger.db")
	}
	command := "engine"
	if d.options.Serve {
		command = "serve"
		if d.service, err = newService(); err != nil {
			return err
		}
	}
	path, err := writeConfig(d.options, d.world, d.dir, url, d.channel(), d.service.listen)
	if err != nil {
		return err
	}
	c, err := config.Load(path)
	if err != nil {
		return fmt.Errorf("the demo's own configuration: %w", err)
	}
	if err := server.Migrate(ctx, c); err != nil {
		return err
	}
	if d.ledger, err = server.OpenLedger(ctx, c); err != nil {
		return err
	}
	d.tracker.ledger = d.ledger
	if d.base, err = d.ledger.Stats(ctx); err != nil {
		return err
	}
	d.engine, err = newEngine(command, path, d.dir)
	return err
}

func (d *demo) close() error {
	var errs []error
	if d.engine != nil {
		d.engine.kill(true, true)
		errs = append(errs, d.engine.log.Close())
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	if d.world != nil {
		errs = append(errs, d.world.close())
	}
	return errors.Join(errs...)
}

// run starts everything, waits for the end of every intent, stops, and counts.
func (d *demo) run(ctx context.Context) (Result, error) {
	if err := d.awaitChannel(ctx); err != nil {
		return Result{}, err
	}
	var helpers sync.WaitGroup
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	helpers.Go(func() {
		if err := d.engine.keepAlive(working); err != nil {
			stop(err)
		}
	})
	helpers.Go(func() { d.tracker.watch(working) })
	helpers.Go(func() {
		if err := d.claimAll(working); err != nil && working.Err() == nil {
			stop(err)
		}
	})
	helpers.Go(func() { d.strikeAll(working) })
	err := d.awaitEnd(working)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}
	var scraped *Scraped
	if d.options.Serve && err == nil {
		scraped = new(Scraped)
		*scraped, err = d.service.scrape(working, d.base)
		if err != nil {
			scraped = nil
		}
	}
	stop(nil)
	helpers.Wait()
	d.progress.end(d.out)
	if err != nil {
		err = fmt.Errorf("%w; the engine's log is %s", err, filepath.Join(d.dir, "engine.log"))
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = errors.Join(err, d.engine.stop(grace))
	r, countErr := d.result(grace)
	r.Scraped = scraped
	return r, errors.Join(err, countErr)
}

// awaitChannel starts the engine and waits until it has put its channel into the ledger, so that there is something to
// claim on.
func (d *demo) awaitChannel(ctx context.Context) error {
	if err := d.engine.start(); err != nil {
		return err
	}
	for {
		if _, err := d.ledger.ChannelRow(ctx, d.channel()); err == nil {
			return nil
		}
		if !d.engine.running() {
			return fmt.Errorf("the engine did not start; its log is %s", filepath.Join(d.dir, "engine.log"))
		}
		if !pause(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// channel is this run's own: on a ledger that has seen other demos, nothing of theirs is sent into this one's world.
func (d *demo) channel() string { return channelName(d.world, d.runID) }

func channelName(w world, runID string) string { return w.kind() + "/demo-" + runID[:8] }

// claimAll claims in small batches while everything else goes on. A batch whose answer was lost is claimed again: that is what keys are for.
func (d *demo) claimAll(ctx context.Context) error {
	const batch = 20
	for n := 0; n < d.options.Count; n += batch {
		var claims []ledger.Claim
		for i := n; i < min(n+batch, d.options.Count); i++ {
			payload, key, err := d.world.claim(i)
			if err != nil {
				return fmt.Errorf("claim %d: %w", i, err)
			}
			claims = append(claims, ledger.Claim{RunID: d.runID, EffectKey: key, Channel: d.channel(), Payload: payload})
		}
		keys, err := d.claim(ctx, claims)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		d.keys = append(d.keys, keys...)
		d.claimed.Add(int64(len(keys)))
	}
	return nil
}

// claim claims in the ledger, or over HTTP.
func (d *demo) claim(ctx context.Context, claims []ledger.Claim) (keys []ledger.Key, err error) {
	if d.options.Serve {
		return d.service.claim(ctx, claims)
	}
	results, err := core.Claim(ctx, d.ledger, claims...)
	for _, r := range results {
		keys = append(keys, r.Key)
	}
	return keys, err
}

// strikeAll carries out the schedule.
func (d *demo) strikeAll(ctx context.Context) {
	for _, p := range schedule(d.options) {
		for {
			s, err := d.stats(ctx)
			// The last kills fall on whatever is still under way: nothing new would be committed before them.
			tail := s.Waiting == 0 && int(d.claimed.Load()) == d.options.Count
			if err == nil && (s.Committed+s.Held >= p.after || tail) && d.engine.running() {
				break
			}
			if !pause(ctx, 5*time.Millisecond) {
				return
			}
		}
		if !pause(ctx, time.Duration(p.extra*float64(sendTime))) {
			return
		}
		d.strike(ctx, p.blow)
		d.kills.Add(1)
	}
}

func (d *demo) strike(ctx context.Context, b blow) {
	switch b {
	case killEngine:
		d.engine.kill(true, false)
	case killAdapter:
		d.engine.kill(false, true)
	case cutConnections:
		d.world.cut()
	case killInGap:
		struck := make(chan struct{})
		if d.world.gap(func() { d.engine.kill(true, true); close(struck) }) {
			select {
			case <-struck:
			case <-time.After(time.Second): // nothing is being sent: a plain kill
				d.world.gap(nil)
				d.engine.kill(true, true)
			case <-ctx.Done():
			}
			break
		}
		fallthrough
	default:
		d.engine.kill(true, true)
	}
	d.tracker.struck(ctx)
}

// settled reports whether the held intents are going to stay held: they are still probed, so a few seconds without a change are
// waited for. Without a probe there is nothing to wait for.
func (d *demo) settled(held int) bool {
	if held == 0 || d.options.NoProbe {
		return true
	}
	if held != d.held {
		d.held, d.heldSince = held, time.Now()
	}
	return time.Since(d.heldSince) > heldPatience
}

// awaitEnd waits until every claimed intent has ended or is held, and all kills have been made.
func (d *demo) awaitEnd(ctx context.Context) error {
	for {
		s, err := d.stats(ctx)
		if err == nil {
			d.progress.show(d.out, d, s)
			open := s.Waiting + s.Dispatched + s.Accepted
			all := int(d.claimed.Load()) == d.options.Count && int(d.kills.Load()) == d.options.Kills
			if all && open == 0 && s.Committed+s.Abandoned+s.Held >= d.options.Count && d.settled(s.Held) {
				return nil
			}
		}
		if !pause(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
