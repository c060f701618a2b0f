package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/sdk/host"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// An adapter that could not be started is tried again after retryFirst, then ever more rarely.
const (
	retryFirst   = time.Second
	retryLongest = time.Minute
)

// Names of log events. They are stable.
const (
	EventNotStarted = "channel.not_started" // an adapter could not be started; it is tried again
	EventJoined     = "channel.joined"      // it could, and its channel is driven from now on
)

// member is one configured channel: with an adapter, or with the reason why there is none yet.
type member struct {
	name    string
	mu      sync.Mutex
	adapter *host.Adapter
	reason  error // why the channel is not driven; nil when it is
	tries   int64
	givenUp bool // a person must change something
}

func (m *member) started(a *host.Adapter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adapter = a
}

func (m *member) settled(reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reason = reason
}

func (m *member) giveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.givenUp = true
}

// rests reports whether it is not tried again.
func (m *member) rests() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.givenUp
}

func (m *member) now() (a *host.Adapter, reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.adapter, m.reason
}

// startAll starts the adapters beside each other. What only time can mend stays with its channel; what a person must change ends the
// start, and so does anything if strict.
func (s *Server) startAll(ctx context.Context, strict bool) error {
	var starts sync.WaitGroup
	faults := make([]error, len(s.members))
	for i, m := range s.members {
		starts.Go(func() {
			if err := s.startOne(ctx, m); err != nil && (strict || !mayStartLater(err)) {
				faults[i] = err
			}
		})
	}
	starts.Wait()
	return errors.Join(faults...)
}

func (s *Server) startOne(ctx context.Context, m *member) error {
	m.mu.Lock()
	m.tries++
	m.mu.Unlock()
	a, err := launch(ctx, s.configuration(), m.name, s.executable, s.logger)
	if err != nil {
		m.settled(err)
		return err
	}
	m.started(a)
	return nil
}

// mayStartLater reports whether time may mend it: the program is not there yet, it ended, or it refused a configuration whose secrets are
// elsewhere.
func mayStartLater(err error) bool {
	var failure *host.LaunchError
	return errors.As(err, &failure) && !failure.Permanent
}

// retry starts an adapter again and again, and lets its channel join the engine. It ends when the channel has joined, when a
// person must change something, or with ctx.
func (s *Server) retry(ctx context.Context, m *member) {
	_, reason := m.now()
	for wait := retryFirst; ; wait = min(2*wait, retryLongest) {
		s.logger.Error(EventNotStarted, "channel", m.name, "error", reason, "again_in", wait.String())
		t := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if reason = s.join(ctx, m); reason == nil {
			s.logger.Info(EventJoined, "channel", m.name)
			return
		}
		var fault *core.ConfigError
		if ctx.Err() != nil {
			return
		}
		if errors.As(reason, &fault) || errors.As(reason, new(*AdapterError)) && !mayStartLater(reason) {
			m.giveUp()
			s.logger.Error(EventNotStarted, "channel", m.name, "error", reason, "again_in", "never: change the configuration and start again")
			return
		}
	}
}

// join makes one try.
func (s *Server) join(ctx context.Context, m *member) error {
	a, _ := m.now()
	if a == nil {
		if err := s.startOne(ctx, m); err != nil {
			return err
		}
		a, _ = m.now()
	}
	err := s.Engine.Add(ctx, s.configuration().Channels[m.name].Options(m.name, a, a.Sheet()))
	m.settled(err)
	return err
}

// configuration is what runs: as it was started, with what reloads have changed.
func (s *Server) configuration() config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// Health is what this process sees of a channel's adapter; false if the channel is not configured here.
func (s *Server) Health(channel string) (pawlclient.ChannelHealth, bool) {
	for _, m := range s.members {
		if m.name == channel {
			return s.health(m), true
		}
	}
	return pawlclient.ChannelHealth{}, false
}

// Channels returns the health of every configured channel, by name.
func (s *Server) Channels() map[string]pawlclient.ChannelHealth {
	all := make(map[string]pawlclient.ChannelHealth, len(s.members))
	for _, m := range s.members {
		all[m.name] = s.health(m)
	}
	return all
}

func (s *Server) health(m *member) pawlclient.ChannelHealth {
	m.mu.Lock()
	a, reason, tries := m.adapter, m.reason, m.tries
	m.mu.Unlock()
	h := pawlclient.ChannelHealth{Instance: s.Engine.Instance(), InFlight: s.Engine.InFlight(m.name), Restarts: max(0, tries-1)}
	if a != nil {
		h.Restarts += max(0, a.Generation()-1)
		if reason == nil {
			reason = a.Ready()
		}
	}
	if h.Ready = reason == nil; !h.Ready {
		h.Reason = strings.ReplaceAll(reason.Error(), "\n", "; ")
	}
	return h
}
