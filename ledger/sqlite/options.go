package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// DefaultStatementTimeout bounds the wait for the write lock in our own transactions: the commit bound.
	DefaultStatementTimeout = 5 * time.Second
	// DefaultReaders is how many reads run at once.
	DefaultReaders = 4
	maxReaders     = 64
	// maxLeftLog is how large the write-ahead log may stay on the disk after a burst, in bytes.
	maxLeftLog = 64 << 20
)

// Options configures [Open], [Migrate] and [Status]. Only Path is required.
type Options struct {
	// Path is the ledger's file. Its folder must exist and be on a local disk: SQLite's locks and its shared memory do not work over
	// a network.
	Path string
	// LedgerID pins the ledger: another one is refused with [ledger.ErrOtherLedger]. Empty: any.
	LedgerID string
	// Signer signs receipts. Nil: every receipt is owed until a ledger with a signer pays it.
	Signer ledger.Signer
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// StatementTimeout bounds how long one of our own transactions waits for the write lock. Default DefaultStatementTimeout.
	StatementTimeout time.Duration
	// Leases maps the host's own lease table, in the same file, to use instead of agent_runs: claims, fences and guards under a lease verify it
	// there, and a claim without one for a run that somebody holds is refused. nil: agent_runs. The ledger's clock decides the expiry
	// ([Ledger.Now]); it is stored as text of RFC 3339 (the ledger's own times are), as datetime() writes it, or in seconds since 1970.
	Leases *fence.Table
	// Readers is how many reads run at once. Default DefaultReaders.
	Readers int
	// Connector, where it is set, wraps what opens connections: for tests that trace statements or end the process at one.
	Connector func(driver.Connector) driver.Connector

	clock hostClock // tests have one of their own
}

// validated fills defaults in and reports all faults at once.
func (o Options) validated() (Options, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case o.Path == "":
		fault("Path is empty; name the ledger's file")
	case o.Path == ":memory:" || strings.HasPrefix(o.Path, "file:"):
		fault("Path %q is not a file name; a ledger must outlive its process, so name a plain file on a local disk", o.Path)
	case strings.ContainsRune(o.Path, 0):
		fault("Path holds a NUL")
	default:
		if err := checkFile(o.Path); err != nil {
			fault("Path: %w", err)
		} else if abs, err := filepath.Abs(o.Path); err != nil {
			fault("Path: %w", err)
		} else {
			o.Path = abs
		}
	}
	switch {
	case o.StatementTimeout < 0:
		fault("StatementTimeout is negative; use 0 for the default of %s", DefaultStatementTimeout)
	case o.StatementTimeout == 0:
		o.StatementTimeout = DefaultStatementTimeout
	}
	switch {
	case o.Readers < 0 || o.Readers > maxReaders:
		fault("Readers is %d; use 1 to %d, or 0 for the default of %d", o.Readers, maxReaders, DefaultReaders)
	case o.Readers == 0:
		o.Readers = DefaultReaders
	}
	if o.Leases != nil {
		table, err := o.Leases.Normal()
		if err != nil {
			fault("%w", err)
		}
		o.Leases = &table
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.clock == nil {
		o.clock = newSystemClock()
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("sqlite options: %w", errors.Join(faults...))
	}
	return o, nil
}

// checkFile says in words what SQLite would say with a number. It only looks: opening and closing the file beside SQLite would drop
// the locks that this process holds on it.
func checkFile(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it, such as %s", path, filepath.Join(path, "ledger.db"))
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%s)", path, info.Mode().Type())
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("look at the ledger's file: %w", err)
	}
	switch info, err := os.Stat(filepath.Dir(path)); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist; make it first", filepath.Dir(path))
	case err != nil:
		return fmt.Errorf("look at the ledger's folder: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	return nil
}

// dataSource is the driver's name for the file. busyMillis is how long the driver itself waits for a lock.
func (o Options) dataSource(busyMillis int, readOnly bool) string {
	q := url.Values{}
	q.Set("_txlock", "immediate")
	for _, p := range []string{
		fmt.Sprintf("busy_timeout(%d)", busyMillis), "synchronous(FULL)", "foreign_keys(1)", "recursive_triggers(1)", "trusted_schema(0)",
		fmt.Sprintf("journal_size_limit(%d)", maxLeftLog),
	} {
		q.Add("_pragma", p)
	}
	if readOnly {
		q.Set("_query_only", "1")
	}
	u := url.URL{Scheme: "file", Path: o.Path, RawQuery: q.Encode()}
	return u.String()
}
