package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const aboutLedger = "ledger"

// ledgerTime bounds all looks at the ledger.
const ledgerTime = 20 * time.Second

func (d *doctor) ledger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	if path, ok := d.Config.Ledger.URL.SQLite(); ok {
		if !d.file(path) {
			return
		}
	} else if !d.server(ctx) {
		return
	}
	d.migrations(ctx)
	d.open(ctx)
}

// file looks at an embedded ledger's file. False: there is none.
func (d *doctor) file(path string) bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn(aboutLedger, "pawl serve makes it; or correct ledger.url", "%s is not there yet", path)
		return false
	case err != nil:
		d.fault(aboutLedger, "correct ledger.url", "%v", err)
		return false
	case info.Mode().Perm()&0o007 != 0:
		d.fault(aboutLedger, "chmod 600 "+path, "every user of this machine can open %s (mode %#o), which holds all payloads", path, info.Mode().Perm())
	}
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &s); err == nil {
		level, what := kindOfDisk(int64(s.Type))
		do := ""
		if level != OK {
			do = "put it on a local disk, or use Postgres"
		}
		d.add(level, aboutLedger, do, "%s %s; it is opened with a write-ahead log and synchronous=FULL", path, what)
	}
	return true
}

func (d *doctor) migrations(ctx context.Context) {
	const about = "migrations"
	all, err := server.Migrations(ctx, d.Config)
	if err != nil { // said better by opening it
		return
	}
	missing := []string{}
	for _, m := range all {
		if !m.Applied {
			missing = append(missing, fmt.Sprintf("%d %s", m.Version, m.Name))
		}
	}
	if len(missing) > 0 {
		d.fault(about, "pawl migrate up", "the ledger lacks: %s", orNone(missing))
		return
	}
	d.ok(about, "all %d are applied", len(all))
}

// withoutKey is the configuration with a receipt key that is not there: a bad key must not hide how the ledger is.
func withoutKey(c config.Config) config.Config {
	c.ReceiptKey = filepath.Join(c.Data, ".no-such-key")
	return c
}

func (d *doctor) open(ctx context.Context) {
	l, err := server.OpenLedger(ctx, withoutKey(d.Config))
	switch {
	case errors.Is(err, ledger.ErrNotMigrated):
		return // said already
	case errors.Is(err, ledger.ErrOtherLedger):
		d.fault("ledger id", "find out which one is right: if it was moved on purpose, set ledger.id to the id that pawl migrate status prints",
			"this is another ledger than ledger.id names (%s): nothing is sent with it", d.Config.Ledger.ID)
		return
	case errors.Is(err, ledger.ErrNewer):
		d.fault(aboutLedger, "run the newer version of pawl", "%v", err)
		return
	case err != nil:
		d.fault(aboutLedger, "mend that, then look again", "%v", err)
		return
	}
	defer func() { _ = l.Close() }() // it was only read
	if d.Config.Ledger.ID == "" {
		d.warn("ledger id", "set ledger.id to "+l.ID(), "it is not pinned: a copy of this ledger, or a wrong URL, would be sent from as well")
	} else {
		d.ok("ledger id", "it is the one that is pinned, %s", l.ID())
	}
	d.clock(ctx, l)
	d.exposure(ctx, l)
}

// clock compares this host with the ledger, which decides every expiry.
func (d *doctor) clock(ctx context.Context, l ledger.Ledger) {
	const about = "clock"
	before := d.Now()
	there, err := l.Now(ctx)
	if err != nil {
		d.fault(about, "mend the ledger first", "the ledger's clock cannot be read: %v", err)
		return
	}
	after := d.Now()
	here := before.Add(after.Sub(before) / 2)
	off := there.Sub(here).Round(time.Millisecond)
	allowed := d.Config.Engine.ClockAllowance
	if allowed == 0 {
		allowed = fence.DefaultClockAllowance
	}
	switch {
	case off.Abs() > allowed+after.Sub(before):
		d.fault(about, "run a time service (chrony, systemd-timesyncd) on both", "this host and the ledger differ by %s, more than engine.clock_allowance %s", off, allowed)
	case off.Abs() > time.Second+after.Sub(before):
		d.warn(about, "run a time service (chrony, systemd-timesyncd) on both", "this host and the ledger differ by %s (allowed: %s)", off, allowed)
	default:
		d.ok(about, "this host and the ledger differ by %s (allowed: %s)", off, allowed)
	}
}
