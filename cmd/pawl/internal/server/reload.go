package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
)

// reloadTimeout bounds what a reload writes into the ledger.
const reloadTimeout = 15 * time.Second

// Names of log events. They are stable.
const (
	EventReloaded     = "config.reloaded"      // with how much took effect, and how much needs a restart
	EventReloadFailed = "config.reload_failed" // nothing was changed, or not all
	EventChanged      = "config.changed"       // one key took effect
	EventNeedsRestart = "config.needs_restart" // one key did not
)

// adjustable are the keys of a channel that take effect without a restart.
var adjustable = [...]string{"flag", "approval_required", "rate_per_minute", "policy.concurrency"}

// reload reads the configuration again, and logs what came of it. A faulty one changes nothing.
func (s *Server) reload(ctx context.Context) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.cert != nil {
		switch changed, err := s.cert.reload(); {
		case err != nil:
			s.logger.Error(EventCertificate, "error", err)
		case changed:
			s.logger.Info(EventCertificate)
		}
	}
	next, err := s.load()
	if err != nil {
		s.logger.Error(EventReloadFailed, "error", err)
		return
	}
	for _, warning := range next.Warnings {
		s.logger.Warn(warning)
	}
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	changed, needRestart, err := s.apply(ctx, next)
	if err != nil {
		s.logger.Error(EventReloadFailed, "changed", changed, "need_restart", needRestart, "error", err)
		return
	}
	s.logger.Info(EventReloaded, "changed", changed, "need_restart", needRestart)
}

// apply lets what changed in the configuration since the last load take effect, where that can be had without a restart. What did not
// change in it is left alone: a person may have set it otherwise since.
func (s *Server) apply(ctx context.Context, next config.Config) (changed, needRestart int, err error) {
	var faults []error
	for _, c := range config.Diff(s.configuration(), next) {
		name, key, ok := c.Channel()
		if !ok || !isAdjustable(key) {
			needRestart++
			s.logger.Warn(EventNeedsRestart, "key", c.Key())
			continue
		}
		before, after, err := s.adjust(ctx, name, key, next.Channels[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", c.Key(), err))
			continue
		}
		changed++
		s.logger.Info(EventChanged, "key", c.Key(), "from", before, "to", after)
	}
	return changed, needRestart, errors.Join(faults...)
}

func isAdjustable(key string) bool {
	for _, a := range adjustable {
		if a == key {
			return true
		}
	}
	return false
}

// adjust changes one key of one channel, in the engine and then in what runs, so that it is tried again at the next reload if it fails.
func (s *Server) adjust(ctx context.Context, name, key string, next config.Channel) (before, after any, err error) {
	now := s.configuration().Channels[name]
	var l core.Limits
	switch key {
	case "flag":
		before, after = now.Flag, next.Flag
		l.Flag, now.Flag = ledger.Flag(next.Flag), next.Flag // one that is not stated any more stays as it is
	case "approval_required":
		before, after = now.ApprovalRequired, next.ApprovalRequired
		l.ApprovalRequired, now.ApprovalRequired = &next.ApprovalRequired, next.ApprovalRequired
	case "rate_per_minute":
		before, after = now.RatePerMinute, next.RatePerMinute
		l.RatePerMinute, now.RatePerMinute = &next.RatePerMinute, next.RatePerMinute
	case "policy.concurrency":
		before, after = now.Policy.Concurrency, next.Policy.Concurrency
		l.Concurrency, now.Policy.Concurrency = &next.Policy.Concurrency, next.Policy.Concurrency
	}
	err = s.Engine.Adjust(ctx, name, l)
	if errors.Is(err, core.ErrNotConfigured) { // its adapter has not started yet: it joins with what is in the configuration then
		err = nil
		if l.Flag != "" { // but for the flag, which is kept if the ledger knows the channel
			if err = s.Ledger.SetFlag(ctx, name, l.Flag); errors.Is(err, ledger.ErrUnknownChannel) {
				err = nil
			}
		}
	}
	if err != nil {
		return before, after, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	channels := make(map[string]config.Channel, len(s.config.Channels)) // somebody may be reading the old one
	for n, c := range s.config.Channels {
		channels[n] = c
	}
	channels[name] = now
	s.config.Channels = channels
	return before, after, nil
}
