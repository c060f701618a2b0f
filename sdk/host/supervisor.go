package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlworks/pawl/core/channel"
)

// healthFailures is how many health checks in a row may stay without an answer before the process is killed.
const healthFailures = 3

// life is one generation, as the supervisor sees it.
type life interface {
	channel.Channel
	sheet() channel.Sheet
	identity() (generation int64, sha256 string)
	health(ctx context.Context) (alive bool, err error)
	ended() <-chan struct{} // closed when the process and all its traces are gone
	ending() error          // why; read after ended
	stop(ctx context.Context)
	kill()
}

// supervisor owns one adapter: one goroutine launches, watches and ends its generations. It never makes a call again.
type supervisor struct {
	name    string
	logger  *slog.Logger
	launch  func(ctx context.Context, generation int64, phase func(State)) (life, error)
	options Options
	breaker *breaker

	closing context.Context // ends when the adapter is to be closed
	close   context.CancelFunc
	reset   chan struct{}
	stopped chan struct{} // closed when the goroutine is done

	mu       sync.Mutex
	state    State
	current  life
	first    channel.Sheet // of the first generation: no later one may be weaker
	count    int64         // generations so far
	nextTry  time.Time
	lastErr  error
	underWay int
	idle     chan struct{} // closed when nothing is under way; made by drain
}

func newSupervisor(options Options, launch func(context.Context, int64, func(State)) (life, error)) *supervisor {
	closing, closer := context.WithCancel(context.Background())
	return &supervisor{
		name: options.Name, logger: options.Logger.With("adapter", options.Name), launch: launch, options: options,
		breaker: newBreaker(), closing: closing, close: closer, reset: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
}

// begin makes the first launch, in the caller's goroutine, and then starts the supervising one.
func (s *supervisor) begin(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	l, err := s.next(ctx)
	if err != nil {
		s.enter(Stopped, err)
		s.close()
		close(s.stopped)
		return err
	}
	s.first = l.sheet()
	s.publish(l)
	go s.run(l)
	return nil
}

// run watches a generation until it ends and launches the next one.
func (s *supervisor) run(l life) {
	defer close(s.stopped)
	for {
		err := s.watch(l)
		for err != nil {
			if !s.rest(err) {
				break
			}
			if l, err = s.next(s.closing); err == nil {
				s.publish(l)
			}
		}
		if err != nil || s.closing.Err() != nil && s.stateNow() == Stopped {
			s.enter(Stopped, ErrClosed)
			return
		}
	}
}

// next launches one generation.
func (s *supervisor) next(ctx context.Context) (life, error) {
	s.mu.Lock()
	s.count++
	number := s.count
	s.mu.Unlock()
	l, err := s.launch(ctx, number, func(phase State) { s.enter(phase, nil) })
	if err != nil {
		return nil, err
	}
	if number > 1 {
		if err := notWeaker(s.first, l.sheet()); err != nil {
			l.kill()
			<-l.ended()
			return nil, &LaunchError{
				Name: s.name, Phase: Describing, Permanent: true, Err: fmt.Errorf("%w: %w", ErrWeakerSheet, err),
				Hint: "restart the engine if the new adapter is wanted: its sheet is read at start",
			}
		}
	}
	return l, nil
}

// watch returns nil when the generation was closed in order, else why it ended.
func (s *supervisor) watch(l life) error {
	watching, cancel := context.WithCancel(s.closing)
	defer cancel()
	hung := make(chan error, 1)
	go func() { hung <- s.checkHealth(watching, l) }()
	defer func() {
		cancel()
		<-hung
	}()
	select {
	case <-l.ended():
		return s.fallen(l, l.ending())
	case err := <-hung:
		hung <- nil // for the deferred wait
		if err != nil {
			l.kill()
			<-l.ended()
			return s.fallen(l, err)
		}
	case <-s.closing.Done():
	}
	s.drain(l)
	return nil
}

func (s *supervisor) fallen(l life, err error) error {
	number, _ := l.identity()
	s.mu.Lock()
	s.state, s.current, s.lastErr = Backoff, nil, err
	s.mu.Unlock()
	if s.closing.Err() != nil {
		return ErrClosed
	}
	s.logger.Error("adapter process is gone", "generation", number, "error", err)
	return err
}

// checkHealth returns an error when the process stopped answering, nil when ctx ends.
func (s *supervisor) checkHealth(ctx context.Context, l life) error {
	ticker := time.NewTicker(s.options.HealthInterval)
	defer ticker.Stop()
	silent, unwell := 0, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		asking, cancel := context.WithTimeout(ctx, s.options.HealthTimeout)
		alive, err := l.health(asking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if silent++; alive {
			silent = 0
		}
		if silent >= healthFailures {
			return &LaunchError{Name: s.name, Phase: Ready, Err: fmt.Errorf("no answer to %d health checks: %w", silent, err)}
		}
		if bad := err != nil; bad != unwell {
			unwell = bad
			s.logger.Warn("adapter's health changed", "well", !bad, "error", err)
		}
	}
}

// rest waits before the next launch. It returns false if the adapter is closed meanwhile.
func (s *supervisor) rest(err error) bool {
	if s.closing.Err() != nil {
		return false
	}
	select {
	case <-s.reset: // one that came too late for the rest before
	default:
	}
	state, pause := Backoff, time.Duration(0)
	if permanent(err) || !s.breaker.crash(time.Now()) {
		state, pause = Quarantined, s.options.QuarantineTime
	} else {
		pause = s.breaker.pause()
	}
	s.mu.Lock()
	s.nextTry = time.Now().Add(pause)
	s.mu.Unlock()
	s.enter(state, err)
	s.logger.Warn("adapter will be started again", "state", state.String(), "in", pause, "error", err)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-s.closing.Done():
		return false
	case <-s.reset:
	case <-timer.C:
	}
	if state == Quarantined {
		s.breaker.forgive()
	}
	return true
}

// drain ends a generation in order: no new calls, those under way, then the process.
func (s *supervisor) drain(l life) {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.GracePeriod)
	defer cancel()
	s.mu.Lock()
	s.state = Draining
	idle := make(chan struct{})
	if s.idle = idle; s.underWay == 0 {
		close(idle)
		s.idle = nil
	}
	s.mu.Unlock()
	select {
	case <-idle:
	case <-l.ended():
	case <-ctx.Done():
		s.logger.Warn("calls are cut: the grace period is over")
	}
	l.stop(ctx)
	s.mu.Lock()
	s.state, s.current = Stopped, nil
	s.mu.Unlock()
}

func (s *supervisor) publish(l life) {
	number, digest := l.identity()
	s.mu.Lock()
	s.state, s.current, s.lastErr = Ready, l, nil
	s.mu.Unlock()
	s.logger.Info("adapter is ready", "generation", number, "kind", l.sheet().Kind, "version", l.sheet().Version, "sha256", digest)
}

func (s *supervisor) enter(state State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	if err != nil {
		s.lastErr = err
	}
}

func (s *supervisor) stateNow() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// admit lets one call through to the current generation; release ends it.
func (s *supervisor) admit() (l life, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Ready {
		e := &NotReadyError{Name: s.name, State: s.state, Err: s.lastErr}
		if s.state == Backoff || s.state == Quarantined {
			e.RetryAfter = max(0, time.Until(s.nextTry))
		}
		return nil, nil, e
	}
	s.underWay++
	return s.current, s.release, nil
}

func (s *supervisor) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay--; s.underWay == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// notWeaker compares what a restarted adapter claims with what the engine relies on.
func notWeaker(first, now channel.Sheet) error {
	first, now = first.Normal(), now.Normal()
	var faults []error
	fault := func(bad bool, field string, was, is any) {
		if bad {
			faults = append(faults, fmt.Errorf("%s was %v and is %v", field, was, is))
		}
	}
	rank := map[any]int{
		channel.ReplayWithinLife: 1, channel.ReplayForEver: 2, channel.ProbeHeuristic: 1, channel.ProbeExact: 2,
	}
	fault(now.Kind != first.Kind, "kind", first.Kind, now.Kind)
	fault(now.Token != first.Token, "token", first.Token, now.Token)
	fault(rank[now.Replay] < rank[first.Replay], "replay", first.Replay, now.Replay)
	fault(now.Replay == channel.ReplayWithinLife && now.TokenLife < first.TokenLife, "token_life", first.TokenLife, now.TokenLife)
	fault(rank[now.Probe] < rank[first.Probe], "probe", first.Probe, now.Probe)
	fault(first.NegativeProof && !now.NegativeProof, "negative_proof", true, false)
	fault(first.Begin && !now.Begin, "begin", true, false)
	fault(now.SettleTime > first.SettleTime, "settle_time", first.SettleTime, now.SettleTime)
	fault(now.ProbeHorizon != 0 && (first.ProbeHorizon == 0 || now.ProbeHorizon < first.ProbeHorizon),
		"probe_horizon", first.ProbeHorizon, now.ProbeHorizon)
	return errors.Join(faults...)
}

// notMore refuses a configured sheet that claims more than the described one. The times are the configuration's to say.
func notMore(described, configured channel.Sheet) error {
	described.SettleTime, described.ProbeHorizon, described.TokenLife = configured.SettleTime, configured.ProbeHorizon, configured.TokenLife
	return notWeaker(configured, described)
}
