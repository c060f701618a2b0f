package api

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// ServiceOptions say what a Service works on. Only Ledger is required.
type ServiceOptions struct {
	Ledger ledger.Ledger
	// Claim takes all claims or none, in a transaction of its own: an engine's Claim, which counts them. Default: core.Claim.
	Claim func(ctx context.Context, claims ...ledger.Claim) ([]ledger.ClaimResult, error)
	// Wake is called with the channel of each new claim after its commit: an engine's Wake.
	Wake func(channel string)
	// Await returns when the intent has ended or is held, or ctx ends, with what is known then: an engine's Wait. Default: core.Wait,
	// which polls.
	Await func(ctx context.Context, k ledger.Key) (ledger.Intent, error)
	// Health is what this process sees of a channel's adapter; false where it runs none.
	Health func(channel string) (pawlclient.ChannelHealth, bool)

	// PublicKey is that of the receipts which are issued here, under the name Issuer. Without it ReceiptKey is not found.
	PublicKey ed25519.PublicKey
	Issuer    string
	// Trusted are the keys that receipts are verified with. Default: PublicKey alone.
	Trusted *receipt.KeyRing

	// Actor acts where the context names nobody: the user of a command line.
	Actor Actor
	// ClockAllowance is how long past its expiry a fence may still be alive. Default fence.DefaultClockAllowance.
	ClockAllowance time.Duration
	// Logger gets what no caller can be told. Default: none.
	Logger *slog.Logger
}

// Service does what the API does, in this process. Make one with [NewService]. It is safe for concurrent use.
type Service struct {
	ledger    ledger.Ledger
	take      func(context.Context, ...ledger.Claim) ([]ledger.ClaimResult, error)
	wake      func(string)
	await     func(context.Context, ledger.Key) (ledger.Intent, error)
	health    func(string) (pawlclient.ChannelHealth, bool)
	public    ed25519.PublicKey
	issuer    string
	trusted   *receipt.KeyRing
	actor     Actor
	allowance time.Duration
	logger    *slog.Logger
	schemas   ledger.Schemas
	// tokenChanges counts API tokens that were made or revoked here.
	tokenChanges atomic.Int64
	pruning      chan struct{} // holds one value during a prune
}

var _ pawlclient.API = (*Service)(nil)

// NewService checks the options. Errors name the option.
func NewService(o ServiceOptions) (*Service, error) {
	if o.Ledger == nil {
		return nil, errors.New("the option Ledger is missing; open a ledger first")
	}
	if o.ClockAllowance < 0 {
		return nil, fmt.Errorf("ClockAllowance: must not be negative, is %s", o.ClockAllowance)
	}
	s := &Service{
		ledger: o.Ledger, take: o.Claim, wake: o.Wake, await: o.Await, health: o.Health, public: o.PublicKey, issuer: o.Issuer, trusted: o.Trusted,
		actor: o.Actor, allowance: cmp.Or(o.ClockAllowance, fence.DefaultClockAllowance), logger: o.Logger,
		pruning: make(chan struct{}, 1),
	}
	if s.trusted == nil && s.public != nil {
		ring, err := receipt.NewKeyRing(s.public)
		if err != nil {
			return nil, fmt.Errorf("PublicKey: %w", err)
		}
		s.trusted = ring
	}
	if s.take == nil {
		s.take = func(ctx context.Context, claims ...ledger.Claim) ([]ledger.ClaimResult, error) {
			return core.Claim(ctx, s.ledger, claims...)
		}
	}
	if s.wake == nil {
		s.wake = func(string) {}
	}
	if s.await == nil {
		s.await = func(ctx context.Context, k ledger.Key) (ledger.Intent, error) { return core.Wait(ctx, s.ledger, k) }
	}
	if s.health == nil {
		s.health = func(string) (pawlclient.ChannelHealth, bool) { return pawlclient.ChannelHealth{}, false }
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s, nil
}
