package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/core/channel"
)

// Adapter is a supervised adapter process. It is a channel.Channel and safe for concurrent use.
type Adapter struct{ supervisor *supervisor }

var _ channel.Channel = (*Adapter)(nil)

// Launch starts the adapter and returns when it is ready. An error is a [*LaunchError] or names the wrong option;
// nothing is left running then. ctx bounds the start only. The adapter lives until Close.
func Launch(ctx context.Context, options Options) (*Adapter, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	base, err := baseDir(options.Dir)
	if err != nil {
		return nil, err
	}
	if err := sweep(base); err != nil {
		options.Logger.Warn("old launch directories were not removed", "error", err)
	}
	l := &launcher{options: options, base: base, redact: newRedactor(options.Config)}
	s := newSupervisor(options, l.launch)
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return &Adapter{supervisor: s}, nil
}

// Sheet is the capability sheet, with every unknown value replaced by the weakest. It does not change: a restarted
// adapter that claims less is refused.
func (a *Adapter) Sheet() channel.Sheet { return a.supervisor.first }

// State is where the adapter is in its life.
func (a *Adapter) State() State { return a.supervisor.stateNow() }

// Generation counts the lives of the process, from 1.
func (a *Adapter) Generation() int64 {
	a.supervisor.mu.Lock()
	defer a.supervisor.mu.Unlock()
	return a.supervisor.count
}

// SHA256 is the hex digest of the program that is running; empty when none is.
func (a *Adapter) SHA256() string {
	a.supervisor.mu.Lock()
	defer a.supervisor.mu.Unlock()
	if a.supervisor.current == nil {
		return ""
	}
	_, digest := a.supervisor.current.identity()
	return digest
}

// Err is why the adapter is not ready; nil when it is.
func (a *Adapter) Err() error {
	a.supervisor.mu.Lock()
	defer a.supervisor.mu.Unlock()
	if a.supervisor.state == Ready {
		return nil
	}
	return a.supervisor.lastErr
}

// Ready returns nil when the adapter takes calls, and why not otherwise.
func (a *Adapter) Ready() error {
	_, release, err := a.supervisor.admit()
	if err != nil {
		return err
	}
	release()
	return nil
}

// Health asks the adapter how it is. The error says what is wrong, or is a [*NotReadyError].
func (a *Adapter) Health(ctx context.Context) error {
	l, release, err := a.supervisor.admit()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, a.supervisor.options.HealthTimeout)
	defer cancel()
	_, err = l.health(ctx)
	return err
}

// Reset tries a resting adapter at once: a person has looked. It does nothing in any other state.
func (a *Adapter) Reset() {
	if s := a.supervisor.stateNow(); s != Backoff && s != Quarantined {
		return
	}
	select {
	case a.supervisor.reset <- struct{}{}:
	default:
	}
}

// IdempotencyToken implements channel.Channel.
func (a *Adapter) IdempotencyToken(ctx context.Context, r channel.TokenRequest) (channel.Token, error) {
	l, release, err := a.supervisor.admit()
	if err != nil {
		return channel.Token{}, err
	}
	defer release()
	return l.IdempotencyToken(ctx, r)
}

// Send implements channel.Channel. An adapter that is not ready answers NotSent.
func (a *Adapter) Send(ctx context.Context, attempt channel.Attempt) (channel.Outcome, error) {
	l, release, err := a.supervisor.admit()
	if err != nil {
		return channel.Outcome{}, notReady(err)
	}
	defer release()
	return l.Send(ctx, attempt)
}

// Probe implements channel.Channel.
func (a *Adapter) Probe(ctx context.Context, attempt channel.Attempt) (channel.Finding, error) {
	l, release, err := a.supervisor.admit()
	if err != nil {
		return channel.UnknownFinding(err.Error()), fmt.Errorf("%w: %w", channel.ErrNotAsked, err)
	}
	defer release()
	return l.Probe(ctx, attempt)
}

// notReady is proof that nothing was sent. Where starting again cannot help, the channel is at fault until a person
// looks.
func notReady(err error) error {
	notSent := &channel.NotSentError{Err: err}
	var e *NotReadyError
	if errors.As(err, &e) {
		notSent.RetryAfter = e.RetryAfter
		notSent.Configuration = e.State == Quarantined && permanent(e.Err)
	}
	return notSent
}

// Close ends the adapter: it refuses new calls, waits for those under way, asks the process to end, and kills its
// group when the grace period or ctx is over. It returns when nothing is left of it. Closing twice is harmless.
func (a *Adapter) Close(ctx context.Context) error {
	s := a.supervisor
	s.close()
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	l := s.current
	s.mu.Unlock()
	if l != nil {
		l.kill()
	}
	<-s.stopped
	return ctx.Err()
}
