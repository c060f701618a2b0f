package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
)

// Level says how a thing is.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // it runs, and may surprise
	Fault   Level = "fault"   // it does not run, or not as promised
)

// Finding is what was found about one thing.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // such as ledger, receipt key, channel mail/shop
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// Options say what to look at.
type Options struct {
	File   string        // of the configuration; empty: none
	Config config.Config // what was read; not used if Failed
	Failed error         // why it could not be read
	// Environ is the environment as NAME=value.
	Environ    []string
	Executable string           // started again for bundled adapters
	Now        func() time.Time // this host's clock; nil: time.Now
	Logger     *slog.Logger     // gets what adapters print; nil: nothing does
}

// doctor collects findings.
type doctor struct {
	Options
	found []Finding
}

func (d *doctor) add(level Level, about, do, format string, args ...any) {
	d.found = append(d.found, Finding{level, about, fmt.Sprintf(format, args...), do})
}
func (d *doctor) ok(about, format string, args ...any) { d.add(OK, about, "", format, args...) }
func (d *doctor) warn(about, do, format string, args ...any) {
	d.add(Warning, about, do, format, args...)
}
func (d *doctor) fault(about, do, format string, args ...any) {
	d.add(Fault, about, do, format, args...)
}

// Look looks at everything, in the order in which it is best mended. A fault hides only what cannot be looked at without it.
func Look(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &doctor{Options: o}
	d.configuration()
	d.environment()
	if o.Failed != nil {
		return d.found
	}
	d.data()
	d.receiptKey()
	d.ledger(ctx)
	scratch, err := os.MkdirTemp("", "pawl-doctor-")
	if err != nil {
		d.fault("adapters", "make room, or set TMPDIR to a folder that can be written", "no folder for trying them out: %v", err)
	} else {
		d.channels(ctx, scratch)
		if err := os.RemoveAll(scratch); err != nil {
			d.warn("adapters", "remove it by hand", "the folder they were tried out in could not be removed: %v", err)
		}
	}
	d.addresses(ctx)
	return d.found
}

// Worst is the worst level of all findings.
func Worst(found []Finding) Level {
	worst := OK
	for _, f := range found {
		if f.Level == Fault || f.Level == Warning && worst == OK {
			worst = f.Level
		}
	}
	return worst
}
