package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/pawlworks/pawl/ledger"
)

// writerBusy is how long the driver polls for a lock before the writer does, which looks at its deadline and lets others go first.
const writerBusy = 20 // milliseconds

var errClosed error = ledger.Unavailable("the ledger is closed")

// Ledger is a ledger in one SQLite file. Make one with [Open]. It is safe for concurrent use, also with other processes that have the
// same file open.
type Ledger struct {
	id      string
	path    string
	signer  ledger.Signer
	logger  *slog.Logger
	timeout time.Duration
	clock   ledgerClock
	writer  writer
	readers readers
	schemas ledger.Schemas
	hosted  *hostLeases           // nil: leases are in agent_runs
	pruning ledger.Pruning[int64] // the last seq that was looked at

	writeDB, readDB *sql.DB
	closing         sync.Once
	closed          error
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open opens a migrated ledger. It refuses one that is not migrated ([ledger.ErrNotMigrated]), or by a newer version ([ledger.ErrNewer]),
// one with another id than is pinned ([ledger.ErrOtherLedger]), and a file that cannot be written ahead (WAL). Close it.
func Open(ctx context.Context, o Options) (_ *Ledger, err error) {
	o, err = o.validated()
	if err != nil {
		return nil, err
	}
	l := &Ledger{path: o.Path, signer: o.Signer, logger: o.Logger, timeout: o.StatementTimeout, clock: ledgerClock{host: o.clock}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open ledger %s: %w", o.Path, errors.Join(explainFile(err), l.Close()))
		}
	}()
	if l.writeDB, err = o.database(writerBusy, false); err != nil {
		return nil, err
	}
	if l.readDB, err = o.database(int(o.StatementTimeout/time.Millisecond), true); err != nil {
		return nil, err
	}
	l.writer = writer{l: l, turn: make(chan struct{}, 1), conn: connection{db: l.writeDB}}
	l.readers = readers{l: l, free: make(chan *connection, o.Readers), size: o.Readers}
	for range o.Readers {
		l.readers.free <- &connection{db: l.readDB}
	}
	if _, err := os.Stat(o.Path); errors.Is(err, os.ErrNotExist) { // SQLite would make an empty one
		return nil, fmt.Errorf("%w: there is no such file", ledger.ErrNotMigrated)
	}
	if err := checkSchema(ctx, l.writeDB); err != nil {
		return nil, err
	}
	if err := writeAhead(ctx, l.writeDB, o.StatementTimeout); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, o.LedgerID); err != nil {
		return nil, err
	}
	if o.Leases != nil {
		if err := l.mapLeases(ctx, *o.Leases); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// begin reads the ledger's id and anchors its clock.
func (l *Ledger) begin(ctx context.Context, pinned string) error {
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		if err := s.row(ctx, "SELECT ledger_id FROM ledger_epochs ORDER BY epoch LIMIT 1", nil, &l.id); err != nil {
			return fmt.Errorf("read the ledger's id: %w", err)
		}
		if pinned != "" && pinned != l.id {
			return fmt.Errorf("%w: its id is %s, the pinned one %s", ledger.ErrOtherLedger, l.id, pinned)
		}
		return l.clock.anchor(ctx, s)
	})
	if err != nil {
		return err
	}
	now, err := l.clock.now()
	if err != nil {
		return err
	}
	if d := now.Sub(l.clock.host.Wall()); d > wallDrift || d < -wallDrift {
		l.logger.WarnContext(ctx, "the ledger's clock is not the host's wall clock: it was set after the first open of this boot, or a stored time is in the future",
			"difference", d.Round(time.Second))
	}
	return nil
}

// database makes a pool. It opens nothing yet.
func (o Options) database(busyMillis int, readOnly bool) (*sql.DB, error) {
	c, err := modernc.NewConnector(o.dataSource(busyMillis, readOnly))
	if err != nil {
		return nil, fmt.Errorf("make connector: %w", err)
	}
	if o.Connector != nil {
		c = o.Connector(c)
	}
	return sql.OpenDB(c), nil
}

// writeAhead makes sure of WAL mode, without which readers and the writer would stop each other, and of a flush at each commit.
func writeAhead(ctx context.Context, db *sql.DB, patience time.Duration) error {
	give := time.Now().Add(patience)
	for {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return checkFlush(ctx, db)
		case err == nil:
			return fmt.Errorf("the file could not be set to write-ahead logging (journal_mode is %q): keep it on a local disk that supports shared memory", mode)
		case !busy(err) || time.Now().After(give):
			return fmt.Errorf("set write-ahead logging: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollBusy):
		}
	}
}

func checkFlush(ctx context.Context, db *sql.DB) error {
	var level int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return fmt.Errorf("read synchronous: %w", err)
	}
	const full = 2
	if level < full {
		return fmt.Errorf("synchronous is %d, not FULL: a commit would not survive a loss of power", level)
	}
	return nil
}

// checkSchema refuses a ledger that lacks migrations, or has some that this program does not know.
func checkSchema(ctx context.Context, db *sql.DB) error {
	steps, err := status(ctx, db)
	if err != nil {
		return err
	}
	for _, m := range steps {
		if !m.Applied {
			return fmt.Errorf("%w: it lacks %s", ledger.ErrNotMigrated, m.Name)
		}
	}
	return nil
}

// ID implements [ledger.Ledger].
func (l *Ledger) ID() string { return l.id }

// Epoch implements [ledger.Ledger].
func (l *Ledger) Epoch(ctx context.Context) (epoch int64, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		epoch, err = s.currentEpoch(ctx)
		return err
	})
	return epoch, err
}

// Now implements [ledger.Ledger]. It reads no file.
func (l *Ledger) Now(context.Context) (time.Time, error) { return l.clock.now() }

// Close implements [ledger.Ledger].
func (l *Ledger) Close() error {
	l.closing.Do(func() {
		var errs []error
		if l.writer.turn != nil {
			errs = append(errs, l.writer.close(), l.readers.close())
		}
		for _, db := range []*sql.DB{l.readDB, l.writeDB} {
			if db != nil {
				errs = append(errs, db.Close())
			}
		}
		l.closed = errors.Join(errs...)
	})
	return l.closed
}
