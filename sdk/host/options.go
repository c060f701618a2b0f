package host

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"
)

// Defaults of [Options].
const (
	DefaultStartTimeout   = 10 * time.Second
	DefaultCallTimeout    = 30 * time.Second
	DefaultGracePeriod    = 10 * time.Second
	DefaultHealthInterval = 10 * time.Second
	DefaultHealthTimeout  = 5 * time.Second
	DefaultQuarantineTime = 10 * time.Minute
)

// DefaultInheritEnv names the variables that an adapter sees of the engine's environment unless Options say otherwise:
// time zone and certificate stores, nothing that can hold a secret.
func DefaultInheritEnv() []string { return []string{"LANG", "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ"} }

// Options say which adapter to run and how. Name and Path are required.
type Options struct {
	Name string   // the engine's name for it, for logs and errors: "mail/marketing"
	Path string   // absolute path of the program
	Args []string // arguments; never a place for secrets
	// SHA256 pins the program: the hex digest of its file. The file is copied to a private place and the copy is
	// checked and started, so nobody can exchange it in between. Empty: not pinned.
	SHA256 string
	// Config is handed to the adapter by a call, as JSON. It may hold secrets and is never logged.
	Config json.RawMessage
	// Env is set for the adapter. Never a place for secrets.
	Env map[string]string
	// InheritEnv names the variables of the engine's environment that the adapter sees. Nil: DefaultInheritEnv; empty:
	// none.
	InheritEnv []string
	// Dir is where sockets, working directories and pinned copies live. It is made with mode 0700 if missing, must
	// not be writable for others, and must allow programs to run. Empty: a directory of this user under the system's
	// temporary directory. It should be short: a socket's path holds about 100 characters.
	Dir string
	// BeginProven says that a conformance report proves that the adapter calls Begin before the wire, always. Only
	// then, and if its sheet declares Begin, is a missing Begin record taken as a proof that nothing was sent.
	BeginProven bool
	Logger      *slog.Logger // nil: discard

	StartTimeout time.Duration // from start to Ready
	// CallTimeout bounds every call. For Send it is how long after the not-after time the answer is awaited.
	CallTimeout    time.Duration
	GracePeriod    time.Duration // for sends under way and an orderly end, in Close
	HealthInterval time.Duration
	HealthTimeout  time.Duration
	// QuarantineTime is how long a quarantined adapter rests before it is tried again.
	QuarantineTime time.Duration
}

// withDefaults returns the options with every default filled in, or all faults at once.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Name == "" {
		fault("option Name is empty: give the adapter a name for logs")
	}
	if !filepath.IsAbs(o.Path) {
		fault("option Path %q is not absolute: give the full path of the program", o.Path)
	}
	if digest, err := hex.DecodeString(o.SHA256); err != nil || len(digest) != 0 && len(digest) != 32 {
		fault("option SHA256 %q is not the hex form of a SHA-256 digest (64 characters)", o.SHA256)
	}
	o.SHA256 = strings.ToLower(o.SHA256)
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}")
	}
	if !json.Valid(o.Config) {
		fault("option Config is not valid JSON")
	}
	for name := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			fault("option Env names a variable %q: use a name without =", name)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"StartTimeout", &o.StartTimeout, DefaultStartTimeout},
		{"CallTimeout", &o.CallTimeout, DefaultCallTimeout},
		{"GracePeriod", &o.GracePeriod, DefaultGracePeriod},
		{"HealthInterval", &o.HealthInterval, DefaultHealthInterval},
		{"HealthTimeout", &o.HealthTimeout, DefaultHealthTimeout},
		{"QuarantineTime", &o.QuarantineTime, DefaultQuarantineTime},
	} {
		if *d.value < 0 {
			fault("option %s is %s: use a positive duration, or 0 for the default", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	if o.InheritEnv == nil {
		o.InheritEnv = DefaultInheritEnv()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(faults...)
}

// String leaves the configuration out.
func (o Options) String() string {
	return fmt.Sprintf("adapter %s: %s %s (sha256 %s)", o.Name, o.Path, strings.Join(o.Args, " "), o.SHA256)
}

// GoString leaves the configuration out.
func (o Options) GoString() string { return o.String() }

// LogValue leaves the configuration out.
func (o Options) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", o.Name), slog.String("path", o.Path), slog.Any("args", o.Args),
		slog.String("sha256", o.SHA256), slog.Duration("start_timeout", o.StartTimeout),
		slog.Duration("call_timeout", o.CallTimeout), slog.Duration("grace_period", o.GracePeriod))
}
