package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// UnknownPolicy says what happens to an intent whose outcome nothing can settle. It must be chosen for every channel.
type UnknownPolicy string

const (
	// UnknownHold leaves it for a person, and goes on probing it. The default of every example.
	UnknownHold UnknownPolicy = "hold"
	// UnknownAbandon ends it as unknown: at most once.
	UnknownAbandon UnknownPolicy = "abandon"
	// UnknownResend sends it again: at least once.
	UnknownResend UnknownPolicy = "resend"
)

// DuplicatesAcceptable are the words by which an operator allows the policy resend on a channel that is not replay-safe.
const DuplicatesAcceptable = ledger.DuplicatesAcceptable

// LanePolicy says what a held head does to its lane.
type LanePolicy string

const (
	LaneBlock LanePolicy = "block" // it waits, with an alarm
	LaneSkip  LanePolicy = "skip"  // the lane goes on; refused where tokens draw a number from the lane
)

// Defaults of a [Policy].
const (
	DefaultSendTimeout    = 30 * time.Second
	DefaultCommitBound    = 5 * time.Second
	DefaultMargin         = 2 * time.Second
	DefaultFenceTTL       = 60 * time.Second
	DefaultProbeTimeout   = 30 * time.Second
	DefaultConcurrency    = 8
	DefaultStartCeiling   = 25
	DefaultAttemptCeiling = 20
	DefaultBackoffFirst   = time.Second
	DefaultBackoffMax     = 10 * time.Minute
	DefaultProbeEvery     = 15 * time.Second
	DefaultHeldEvery      = 5 * time.Minute
	DefaultHeldMax        = 24 * time.Hour
)

// Policy is how the engine drives one channel. Zero durations and counts get the defaults; Unknown has none.
type Policy struct {
	Unknown UnknownPolicy
	// AcceptDuplicates must be [DuplicatesAcceptable], in words, for UnknownResend on a channel that is not replay-safe.
	AcceptDuplicates string
	// AcceptHeuristic commits on a heuristic sent finding instead of holding.
	AcceptHeuristic bool
	Lane            LanePolicy // default LaneBlock

	// SendTimeout + CommitBound + Margin must be less than FenceTTL. SendTimeout bounds the time to the last step of a send;
	// CommitBound is the statement time-out of the commit; Margin covers what clocks and schedulers may differ by.
	SendTimeout, CommitBound, Margin, FenceTTL time.Duration
	ProbeTimeout                               time.Duration

	Concurrency    int // sends at once in this engine
	StartCeiling   int // fencings before an intent is quarantined
	AttemptCeiling int // stamped tries before an intent is given up, where that is proven, or held
	// Backoff between attempts doubles from BackoffFirst to BackoffMax, with full jitter.
	BackoffFirst, BackoffMax time.Duration
	// ProbeEvery is the first wait between two looks at an unresolved intent; it doubles. HeldEvery and HeldMax bound the looks
	// at a held one.
	ProbeEvery, HeldEvery, HeldMax time.Duration
}

func (p Policy) withDefaults(sheet channel.Sheet) Policy {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&p.SendTimeout, DefaultSendTimeout)
	def(&p.CommitBound, DefaultCommitBound)
	def(&p.Margin, DefaultMargin)
	def(&p.FenceTTL, DefaultFenceTTL)
	def(&p.ProbeTimeout, DefaultProbeTimeout)
	def(&p.BackoffFirst, DefaultBackoffFirst)
	def(&p.BackoffMax, DefaultBackoffMax)
	def(&p.ProbeEvery, DefaultProbeEvery)
	def(&p.HeldEvery, DefaultHeldEvery)
	def(&p.HeldMax, DefaultHeldMax)
	if p.Concurrency == 0 {
		p.Concurrency = DefaultConcurrency
	}
	if sheet.MaxInFlight > 0 {
		p.Concurrency = min(p.Concurrency, sheet.MaxInFlight)
	}
	if p.StartCeiling == 0 {
		p.StartCeiling = DefaultStartCeiling
	}
	if p.AttemptCeiling == 0 {
		p.AttemptCeiling = DefaultAttemptCeiling
	}
	if p.Lane == "" {
		p.Lane = LaneBlock
	}
	return p
}

// validate returns every fault of a policy, each naming its field, with the arithmetic. The policy has its defaults and the
// sheet is normal.
func (p Policy) validate(sheet channel.Sheet, clockAllowance time.Duration) error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	switch p.Unknown {
	case UnknownHold, UnknownAbandon:
	case UnknownResend:
		if sheet.Replay == channel.ReplayNever && p.AcceptDuplicates != DuplicatesAcceptable {
			fault("unknown", "resend on a channel that is not replay-safe sends twice now and then; if that is wanted, set accept_duplicates to %q", DuplicatesAcceptable)
		}
	case "":
		fault("unknown", "must be stated: hold (a person decides), abandon (at most once) or resend (at least once)")
	default:
		fault("unknown", "%q is none of hold, abandon, resend", p.Unknown)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"send_timeout", p.SendTimeout}, {"commit_bound", p.CommitBound}, {"margin", p.Margin}, {"fence_ttl", p.FenceTTL},
		{"probe_timeout", p.ProbeTimeout}, {"backoff_first", p.BackoffFirst}, {"backoff_max", p.BackoffMax},
		{"probe_every", p.ProbeEvery}, {"held_every", p.HeldEvery}, {"held_max", p.HeldMax},
	} {
		if d.value <= 0 {
			fault(d.field, "must be positive, is %s", d.value)
		}
	}
	if sum := p.SendTimeout + p.CommitBound + p.Margin; sum >= p.FenceTTL {
		fault("fence_ttl", "send_timeout %s + commit_bound %s + margin %s = %s, which must be less than fence_ttl %s; make it longer than %s",
			p.SendTimeout, p.CommitBound, p.Margin, sum, p.FenceTTL, sum)
	}
	if p.BackoffFirst > p.BackoffMax {
		fault("backoff_first", "%s is more than backoff_max %s", p.BackoffFirst, p.BackoffMax)
	}
	if life := sheet.TokenLife.D(); sheet.Replay == channel.ReplayWithinLife && life <= p.SendTimeout+p.Margin {
		fault("send_timeout", "the token lives %s after the first stamp, which must be more than send_timeout %s + margin %s", life, p.SendTimeout, p.Margin)
	}
	if sheet.MayAccept && sheet.FinalWithin <= 0 {
		fault("final_within", "the adapter's sheet allows accepted and states no time in which it is final: an intent could wait for its end for ever; state one in the sheet")
	}
	if h := sheet.ProbeHorizon.D(); h > 0 && sheet.Probe != channel.ProbeNone {
		if need := p.FenceTTL + sheet.SettleTime.D() + clockAllowance; h <= need {
			fault("fence_ttl", "the probe looks back %s, but the first look that counts comes after fence_ttl %s + settle time %s + clock allowance %s = %s",
				h, p.FenceTTL, sheet.SettleTime, clockAllowance, need)
		}
	}
	if p.Concurrency < 0 || p.Concurrency > 4096 {
		fault("concurrency", "must be between 1 and 4096, is %d", p.Concurrency)
	}
	if p.StartCeiling < 0 || p.AttemptCeiling < 0 {
		fault("attempt_ceiling", "ceilings must not be negative")
	}
	switch p.Lane {
	case LaneBlock:
	case LaneSkip:
		if sheet.LaneNumbers {
			fault("lane", "skip would leave a gap in the numbers that tokens draw from the lane")
		}
	default:
		fault("lane", "%q is none of block, skip", p.Lane)
	}
	return errors.Join(faults...)
}

// backoff is the wait after attempt n, with full jitter.
func (p Policy) backoff(attempt int) time.Duration {
	top := doubled(p.BackoffFirst, attempt-1, p.BackoffMax)
	return top/2 + rand.N(top/2+1)
}

// probeWait is the wait after n looks that settled nothing.
func (p Policy) probeWait(looks int) time.Duration { return doubled(p.ProbeEvery, looks, p.HeldMax) }

func doubled(first time.Duration, times int, most time.Duration) time.Duration {
	d := first
	for ; times > 0 && d < most; times-- {
		d *= 2
	}
	return min(d, most)
}

// checkKind refuses a channel whose name does not begin with its adapter's kind.
func checkKind(name string, sheet channel.Sheet) error {
	kind, _, _ := strings.Cut(name, "/")
	if sheet.Kind == "" {
		return errors.New("kind: the adapter's sheet names none")
	}
	if kind != sheet.Kind {
		return fmt.Errorf("kind: the channel's name begins with %q but its adapter speaks %q; name it %s or %s/…", kind, sheet.Kind, sheet.Kind, sheet.Kind)
	}
	return nil
}
