package core

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Defaults of [Options].
const (
	DefaultHeartbeatEvery = 2 * time.Second
	// DefaultHeartbeatTimeout is many missed heartbeats: an engine whose database stalls is not dead.
	DefaultHeartbeatTimeout = 20 * time.Second
	// DefaultPollEvery is how often an idle dispatcher asks the ledger. A claim made through the same engine is seen at once.
	DefaultPollEvery = 500 * time.Millisecond
	DefaultScanEvery = time.Minute
	// DefaultStopGrace is how long a stop waits for sends under way before it cancels them.
	DefaultStopGrace = 45 * time.Second
	DefaultOwedEvery = 30 * time.Second
)

// Options configure an [Engine]. Ledger and Channels are required.
type Options struct {
	Ledger   ledger.Ledger
	Channels []ChannelOptions
	// Instance is unique for each start of a process. Empty: made from the host's name, the process id and a random part.
	Instance string
	Version  string
	Logger   *slog.Logger // default: discard
	Tracer   trace.TracerProvider
	Meter    metric.MeterProvider

	HeartbeatEvery, HeartbeatTimeout time.Duration
	PollEvery                        time.Duration
	ScanEvery                        time.Duration
	OwedEvery                        time.Duration
	StopGrace                        time.Duration
	ClockAllowance                   time.Duration
	// ReclaimRuns makes the engine set dead runs ready again. ReclaimCeiling as in fence.ReclaimOptions.
	ReclaimRuns    bool
	ReclaimCeiling int
}

// ChannelOptions configure one channel.
type ChannelOptions struct {
	Name    string // "mail/marketing"
	Channel channel.Channel
	// Sheet is the capability sheet. Nil: Channel must have a method Sheet() channel.Sheet.
	Sheet            *channel.Sheet
	Policy           Policy
	Flag             ledger.Flag // for a channel that is new to the ledger; default on
	ApprovalRequired bool
	RatePerMinute    int // shared by all engines; 0: the sheet's, or none
}

// ConfigError lists every fault of a configuration. Each names its field.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "configuration: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.HeartbeatEvery, DefaultHeartbeatEvery)
	def(&o.HeartbeatTimeout, DefaultHeartbeatTimeout)
	def(&o.PollEvery, DefaultPollEvery)
	def(&o.ScanEvery, DefaultScanEvery)
	def(&o.OwedEvery, DefaultOwedEvery)
	def(&o.StopGrace, DefaultStopGrace)
	def(&o.ClockAllowance, fence.DefaultClockAllowance)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = otel.GetTracerProvider()
	}
	if o.Meter == nil {
		o.Meter = otel.GetMeterProvider()
	}
	if o.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "host"
		}
		o.Instance = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
	}
	return o
}

// validate returns every fault at once.
func (o Options) validate() error {
	var faults []error
	if o.Ledger == nil {
		faults = append(faults, errors.New("ledger: is required"))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"heartbeat_every", o.HeartbeatEvery}, {"heartbeat_timeout", o.HeartbeatTimeout}, {"poll_every", o.PollEvery},
		{"scan_every", o.ScanEvery}, {"owed_every", o.OwedEvery}, {"stop_grace", o.StopGrace}, {"clock_allowance", o.ClockAllowance},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("%s: must not be negative, is %s", d.field, d.value))
		}
	}
	if o.HeartbeatTimeout < 3*o.HeartbeatEvery {
		faults = append(faults, fmt.Errorf("heartbeat_timeout: %s is less than three times heartbeat_every %s; a slow moment would look like a death", o.HeartbeatTimeout, o.HeartbeatEvery))
	}
	seen := map[string]bool{}
	for _, c := range o.Channels {
		if err := c.validate(o.ClockAllowance); err != nil {
			faults = append(faults, err)
		}
		if seen[c.Name] {
			faults = append(faults, fmt.Errorf("channel %s: is configured twice", c.Name))
		}
		seen[c.Name] = true
	}
	if err := errors.Join(faults...); err != nil {
		return &ConfigError{err}
	}
	return nil
}

func (c ChannelOptions) sheet() (channel.Sheet, bool) {
	if c.Sheet != nil {
		return c.Sheet.Normal(), true
	}
	if s, ok := c.Channel.(interface{ Sheet() channel.Sheet }); ok {
		return s.Sheet().Normal(), true
	}
	return channel.Sheet{}, false
}

func (c ChannelOptions) validate(clockAllowance time.Duration) error {
	name := c.Name
	if name == "" {
		name = "(without a name)"
	}
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("channel %s: %w", name, err)
	}
	if c.Name == ledger.ChannelLocal {
		return wrap(errors.New("name: local is built in and takes no adapter"))
	}
	if c.Channel == nil {
		return wrap(errors.New("channel: is required"))
	}
	sheet, ok := c.sheet()
	if !ok {
		return wrap(errors.New("sheet: is required"))
	}
	var schemas ledger.Schemas
	var schema error
	if len(sheet.PayloadSchema) > 0 {
		schema = schemas.Compile(sheet.PayloadSchema)
	}
	switch c.Flag {
	case "", ledger.FlagOff, ledger.FlagPaused, ledger.FlagShadow, ledger.FlagOn:
	default:
		return wrap(fmt.Errorf("flag: %q is none of off, paused, shadow, on", c.Flag))
	}
	return wrap(errors.Join(checkKind(c.Name, sheet), schema, c.Policy.withDefaults(sheet).validate(sheet, clockAllowance)))
}

// Options returns what the engine runs with, defaults included.
func (e *Engine) Options() Options {
	o := e.options
	o.Channels = append([]ChannelOptions(nil), o.Channels...)
	return o
}
