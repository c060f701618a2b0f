package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/migrations"
)

const (
	// DefaultSchema is where the tables are, unless Options says otherwise.
	DefaultSchema = "public"
	// DefaultStatementTimeout bounds every transaction of the ledger's own: it is the commit bound.
	DefaultStatementTimeout = 5 * time.Second
	// oldestServer is Postgres 14, as server_version_num has it: json and pipelining work as used here.
	oldestServer = 140000
)

// Options say where the ledger is.
type Options struct {
	// URL is a connection string or URL of the driver; URL or Pool is required. A transaction pooler may stand between: named
	// prepared statements are used on a direct connection only. default_query_exec_mode in the URL overrules that.
	URL string
	// Pool is used instead of URL, and is not closed with the ledger. A pool's warnings cannot be watched: a COMMIT whose wait
	// for the synchronous standby is cancelled then passes as done.
	Pool *pgxpool.Pool
	// Schema holds the tables. Default [DefaultSchema].
	Schema string
	// LedgerID pins the ledger: another one is refused with [ledger.ErrOtherLedger]. Empty: any.
	LedgerID string
	// Signer makes receipts. nil: they are owed until a ledger with a signer pays them.
	Signer ledger.Signer
	Logger *slog.Logger // default slog.Default
	// Leases maps the host's own lease table, in the same database, to use instead of agent_runs: claims, fences and guards under a lease verify
	// it there, and a claim without one for a run that somebody holds is refused. nil: agent_runs.
	Leases *fence.Table
	// StatementTimeout bounds each transaction of the ledger's own, from 100ms. Default [DefaultStatementTimeout].
	StatementTimeout time.Duration
	// MaxConns bounds the pool that is made from URL. 0: the driver's default, or what the URL says.
	MaxConns int32
	// Tracer sees every statement; for tests.
	Tracer pgx.QueryTracer
}

func (o *Options) normal() error {
	var faults []error
	wrong := func(field, format string, args ...any) {
		faults = append(faults, &ledger.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if (o.URL == "") == (o.Pool == nil) {
		wrong("url", "give exactly one of URL and Pool")
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if len(o.Schema) > 63 || strings.ContainsRune(o.Schema, 0) {
		wrong("schema", "%.64q is no schema name: at most 63 bytes", o.Schema)
	}
	if o.StatementTimeout == 0 {
		o.StatementTimeout = DefaultStatementTimeout
	}
	if o.StatementTimeout < 100*time.Millisecond || o.StatementTimeout > time.Hour {
		wrong("statement_timeout", "%s is not between 100ms and 1h", o.StatementTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Leases != nil {
		table, err := o.Leases.Normal()
		o.Leases, faults = &table, append(faults, err)
	}
	return errors.Join(faults...)
}

// Ledger is a ledger on Postgres. It is safe for concurrent use. Make one with [Open].
type Ledger struct {
	pool        *pgxpool.Pool
	owned       bool
	schema, id  string
	signer      ledger.Signer
	logger      *slog.Logger
	timeout     time.Duration
	timeoutText string
	columns     []column
	sql         statements
	schemas     ledger.Schemas
	notices     *notices
	hosted      *hostLeases // nil: leases are in agent_runs
	pruning     ledger.Pruning[ledger.Key]
	mover       *mover

	updates sync.Map // stepKind → SQL

	mu     sync.Mutex
	calls  sync.WaitGroup
	closed bool
}

var _ ledger.Ledger = (*Ledger)(nil)

// ErrClosed says that the ledger was closed.
var ErrClosed error = ledger.Unavailable("the ledger is closed")

// Open opens a ledger that was migrated before. It refuses what would be unsafe: [ledger.ErrNotMigrated], [ledger.ErrNewer],
// [ledger.ErrOtherLedger], a server with fsync=off, an encoding other than UTF-8, a server older than 14.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	if err := o.normal(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{
		pool: o.Pool, schema: o.Schema, signer: o.Signer, logger: o.Logger, timeout: o.StatementTimeout,
		// The server gives up first: its answer says more than a connection that was dropped.
		timeoutText: fmt.Sprint(o.StatementTimeout.Milliseconds() * 9 / 10), columns: changing(), notices: &notices{},
	}
	l.sql, l.mover = l.statements(), newMover(l)
	if o.Pool == nil {
		pool, err := l.connect(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		l.pool, l.owned = pool, true
	}
	err := l.check(ctx, o.LedgerID)
	if err == nil {
		err = l.raiseReceiptOrder(ctx)
	}
	if err == nil && o.Leases != nil {
		err = l.mapLeases(ctx, *o.Leases)
	}
	if err != nil {
		if l.owned {
			l.pool.Close()
		}
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, nil
}

func (l *Ledger) connect(ctx context.Context, o Options) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("read url: %w", redacted(err))
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	}
	config.ConnConfig.Tracer = o.Tracer
	config.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { l.notices.note(c, n) }
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = o.StatementTimeout
	}
	if !strings.Contains(o.URL, "default_query_exec_mode") {
		direct, err := isDirect(ctx, config.ConnConfig)
		if err != nil {
			return nil, err
		}
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		if direct {
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
			config.AfterConnect = stayDirect
		}
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// isDirect reports whether nothing stands between: a pooler hands out process numbers of its own. Named prepared statements, which
// spare the server most of its planning, are used on a direct connection only.
func isDirect(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	config = config.Copy()
	config.Tracer = nil
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	direct, err := ownProcess(ctx, conn)
	return direct, errors.Join(err, conn.Close(ctx))
}

func ownProcess(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid int64
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid == int64(conn.PgConn().PID()), err
}

// stayDirect refuses a connection through a pooler that was put in between later.
func stayDirect(ctx context.Context, conn *pgx.Conn) error {
	direct, err := ownProcess(ctx, conn)
	if err == nil && !direct {
		err = errors.New("a connection pooler stands between now: open the ledger again, or set default_query_exec_mode=cache_describe in its URL")
	}
	return err
}

// redacted keeps a password that stands in a broken URL out of the error.
func redacted(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) { // its text has the password taken out
		return parse
	}
	return errors.New("it cannot be parsed; use postgres://user:password@host:5432/database")
}

// check looks at the server and at the schema.
func (l *Ledger) check(ctx context.Context, pinned string) error {
	latest, err := latestMigration()
	if err != nil {
		return err
	}
	var fsync, encoding string
	var server int
	var version *int64
	var id string
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(`SELECT current_setting('fsync'), current_setting('server_encoding'), current_setting('server_version_num')::int`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&fsync, &encoding, &server) })
		if err := s.flush(ctx); err != nil {
			return err
		}
		switch {
		case fsync != "on":
			return &ledger.InvalidError{Field: "fsync", Reason: "the server runs with fsync=" + fsync + ": what it calls committed can be lost; set fsync=on"}
		case encoding != "UTF8":
			return &ledger.InvalidError{Field: "server_encoding", Reason: "is " + encoding + "; create the database with ENCODING 'UTF8'"}
		case server < oldestServer:
			return &ledger.InvalidError{Field: "server_version", Reason: fmt.Sprintf("is %d; Postgres 14 or newer is needed", server/10000)}
		}
		s.queue(`SELECT max(version_id) FROM ` + l.table(migrations.PostgresTable) + ` WHERE is_applied`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
		if err := s.flush(ctx); err != nil {
			return err
		}
		switch {
		case version == nil || *version < latest:
			return ledger.ErrNotMigrated
		case *version > latest:
			return fmt.Errorf("version %d, this program knows %d: %w", *version, latest, ledger.ErrNewer)
		}
		s.queue(`SELECT ledger_id::text FROM ` + l.table("ledger_epochs") + ` ORDER BY epoch DESC LIMIT 1`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&id) })
		return s.flush(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ledger.ErrNotMigrated
	}
	if err != nil {
		return err
	}
	if pinned != "" && !strings.EqualFold(pinned, id) {
		return fmt.Errorf("have %s, configured is %s: %w", id, pinned, ledger.ErrOtherLedger)
	}
	l.id = id
	return nil
}

// ID returns the ledger's id.
func (l *Ledger) ID() string { return l.id }

// Close waits for calls under way and closes the pool that Open made.
func (l *Ledger) Close() error {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	l.mu.Unlock()
	l.calls.Wait()
	if l.owned && !already {
		l.pool.Close()
	}
	return nil
}

func (l *Ledger) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.calls.Add(1)
	return nil
}

func (l *Ledger) leave() { l.calls.Done() }

// read runs f in a transaction that is rolled back: it reads.
func (l *Ledger) read(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	return l.transact(ctx, f)
}

// update returns the SQL of a kind of step.
func (l *Ledger) update(k stepKind) string {
	if sql, ok := l.updates.Load(k); ok {
		return sql.(string)
	}
	sql := l.updateSQL(k.changed, k.proof)
	l.updates.Store(k, sql)
	return sql
}
