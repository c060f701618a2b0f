package config

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// Defaults of [Config].
const (
	DefaultFile   = "pawl.yaml"
	DefaultData   = "pawl-data"
	DefaultIssuer = "pawl"
	// LedgerFile is the embedded ledger's file in the data directory, used where no ledger is named.
	LedgerFile = "ledger.db"
	// PublicKeyFile is the file in the data directory that verifiers of receipts need.
	PublicKeyFile = "receipt.pub.pem"
)

// Config is everything that the command reads. Make one with [Load] or [Default].
type Config struct {
	Ledger Ledger `yaml:"ledger"`
	// Data is the directory of the receipt key, of the embedded ledger, and of the adapters' sockets.
	Data   string `yaml:"data"`
	Issuer string `yaml:"issuer"` // name of the issuer in receipts
	// ReceiptKey is a private key file that replicas share; empty: one of its own in Data, made at the first start.
	ReceiptKey string             `yaml:"receipt_key"`
	Log        Log                `yaml:"log"`
	Engine     Engine             `yaml:"engine"`
	API        API                `yaml:"api"`
	Metrics    Metrics            `yaml:"metrics"`
	Tracing    Tracing            `yaml:"tracing"`
	Mailbox    Mailbox            `yaml:"mailbox"`
	Channels   map[string]Channel `yaml:"channels"`

	// Warnings are what deserves a look but stops nothing.
	Warnings []string `yaml:"-"`
}

// Ledger says where intents are kept.
type Ledger struct {
	URL    URL    `yaml:"url"`    // sqlite:PATH or postgres://…
	Schema string `yaml:"schema"` // Postgres only
	// ID pins the ledger: with another one nothing is sent. A copy of a ledger sends nothing where the id is pinned and the
	// copy was given an id of its own.
	ID     string `yaml:"id"`
	Leases Leases `yaml:"leases"`
}

// Log says what is logged, to standard error.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Engine holds the times of the engine. Zero values get the engine's defaults.
type Engine struct {
	PollEvery        time.Duration `yaml:"poll_every"`
	HeartbeatEvery   time.Duration `yaml:"heartbeat_every"`
	HeartbeatTimeout time.Duration `yaml:"heartbeat_timeout"`
	ScanEvery        time.Duration `yaml:"scan_every"`
	OwedEvery        time.Duration `yaml:"owed_every"`
	StopGrace        time.Duration `yaml:"stop_grace"`
	ClockAllowance   time.Duration `yaml:"clock_allowance"`
	ReclaimRuns      bool          `yaml:"reclaim_runs"`
	ReclaimCeiling   int           `yaml:"reclaim_ceiling"`
}

// Channel is one configured channel.
type Channel struct {
	Adapter Adapter `yaml:"adapter"`
	// Config is handed to the adapter as JSON. It may hold secrets.
	Config           Secret `yaml:"config"`
	Flag             string `yaml:"flag"` // on, off, paused, shadow; for a channel that is new to the ledger, and where a reload finds it changed
	ApprovalRequired bool   `yaml:"approval_required"`
	RatePerMinute    int    `yaml:"rate_per_minute"`
	Policy           Policy `yaml:"policy"`
}

// Adapter says which program speaks the channel: a bundled one by name, or a program by path.
type Adapter struct {
	Name   string   `yaml:"name"`
	Path   string   `yaml:"path"`
	SHA256 string   `yaml:"sha256"` // pins the program
	Args   []string `yaml:"args"`
	Env    []string `yaml:"env"` // names of variables that the adapter may see
	// BeginProven says that a conformance report proves that the adapter calls Begin before the wire, always.
	BeginProven bool `yaml:"begin_proven"`
	// QuarantineTime is how long an adapter that fell five times in ten minutes rests before it is tried again; 0: 10 minutes.
	QuarantineTime time.Duration `yaml:"quarantine_time"`
}

// Policy is how the engine drives the channel. Zero values get the engine's defaults, but Unknown has none.
type Policy struct {
	Unknown          string        `yaml:"unknown"`
	AcceptDuplicates string        `yaml:"accept_duplicates"`
	AcceptHeuristic  bool          `yaml:"accept_heuristic"`
	Lane             string        `yaml:"lane"`
	SendTimeout      time.Duration `yaml:"send_timeout"`
	CommitBound      time.Duration `yaml:"commit_bound"`
	Margin           time.Duration `yaml:"margin"`
	FenceTTL         time.Duration `yaml:"fence_ttl"`
	ProbeTimeout     time.Duration `yaml:"probe_timeout"`
	Concurrency      int           `yaml:"concurrency"`
	StartCeiling     int           `yaml:"start_ceiling"`
	AttemptCeiling   int           `yaml:"attempt_ceiling"`
	BackoffFirst     time.Duration `yaml:"backoff_first"`
	BackoffMax       time.Duration `yaml:"backoff_max"`
	ProbeEvery       time.Duration `yaml:"probe_every"`
	HeldEvery        time.Duration `yaml:"held_every"`
	HeldMax          time.Duration `yaml:"held_max"`
	// NoProbe treats the channel as one that cannot be asked, whatever its sheet says.
	NoProbe bool `yaml:"no_probe"`
}

// Default is the configuration without a file: the embedded ledger in ./pawl-data and no channels.
func Default() Config {
	var c Config
	c.setDefaults("")
	return c
}

func (c *Config) setDefaults(dir string) {
	if c.Data == "" {
		c.Data = DefaultData
	}
	c.Data = from(dir, c.Data)
	if c.ReceiptKey != "" {
		c.ReceiptKey = from(dir, c.ReceiptKey)
	}
	if c.Issuer == "" {
		c.Issuer = DefaultIssuer
	}
	if c.Log.Level == "" {
		c.Log.Level = "info"
	}
	if c.Log.Format == "" {
		c.Log.Format = "text"
	}
	if c.Ledger.URL == "" {
		c.Ledger.URL = URL(schemeSQLite + filepath.Join(c.Data, LedgerFile))
	} else if path, ok := c.Ledger.URL.SQLite(); ok && path != "" {
		c.Ledger.URL = URL(schemeSQLite + from(dir, path))
	}
	c.setServiceDefaults(dir)
	for name, channel := range c.Channels {
		if channel.Adapter.Path != "" {
			channel.Adapter.Path = from(dir, channel.Adapter.Path)
		}
		c.Channels[name] = channel
	}
}

// from reads a relative path as relative to dir.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// Names returns the channels' names in order.
func (c Config) Names() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// LogValue leaves out what may hold a secret.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("ledger", c.Ledger.URL.String()), slog.String("schema", c.Ledger.Schema),
		slog.String("ledger_id", c.Ledger.ID), slog.String("data", c.Data), slog.String("issuer", c.Issuer),
		slog.Any("channels", c.Names()))
}

// String leaves out what may hold a secret.
func (c Config) String() string { return c.LogValue().String() }

// GoString leaves out what may hold a secret.
func (c Config) GoString() string { return c.String() }
