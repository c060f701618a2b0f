// Package sqlite keeps a ledger in one SQLite file: the embedded default, with nothing to install.
//
// # Use
//
// Migrate once, open, claim in the transaction that makes the claim true, close:
//
//	_, err := sqlite.Migrate(ctx, sqlite.Options{Path: "ledger.db"})
//	l, err := sqlite.Open(ctx, sqlite.Options{Path: "ledger.db", Signer: signer})
//	defer l.Close()
//
//	tx, err := db.BeginTx(ctx, nil)               // your own *sql.Tx, on the same file
//	// … your own statements …
//	results, err := l.Claim(ctx, sqlite.Tx(tx), claim)
//	err = tx.Commit()                             // both, or neither
//
// Your own connection is one of modernc.org/sqlite, best opened with _txlock=immediate. A transaction that reads first and
// writes later fails in SQLite as soon as another one writes between; Claim then returns ledger.ErrRetryTransaction, and the
// whole transaction is to be run again.
//
// # Who is authoritative
//
// The rows in effect_intents, on the ledger's clock. Moves are decided by ledger.Apply; triggers refuse whatever Apply
// would, for everybody who writes to the file. dispatch_queue and the lanes' turn_waiting are hints: Scan rebuilds them.
//
// # Writers and readers
//
//	Move, Fence, … ──▶ waiting jobs ──▶ one connection: BEGIN IMMEDIATE, a savepoint each, COMMIT ──▶ one flush for all
//	InTx           ──▶ the same connection, alone
//	Intent, Stats… ──▶ a few connections that only read, and wait for nobody
//
// SQLite lets one transaction write at a time, over all processes. Callers that wait share the next transaction and its
// flush; the failure of one undoes only its own savepoint. A lock that another process holds is asked for again, with
// jitter, until StatementTimeout. There is no background goroutine. f of InTx has the one writer: it must not call methods
// that write, but those that take its tx.
//
// # The clock
//
// SQLite has no clock of its own. The ledger's is the host's boot-time clock, anchored in the file at the first open of
// each boot of the host:
//
//	now = wall time at the anchor + (boot-time clock now − boot-time clock at the anchor)
//
// Setting the wall clock, by hand or by a time service, moves no expiry; sleep of the host counts as time. A new boot takes
// the wall clock again, but begins no earlier than the greatest time stored. So a host whose wall clock was wrong at the
// first open keeps that error until its next boot: Open warns when the two are more than a minute apart. created_at
// and due_at of a claim in plain SQL come from SQLite's own strftime, which is the wall clock.
//
// Times are stored as text, '2026-01-02T03:04:05.678901Z': they sort, strftime and every client read them, a person can, and
// a comparison in the sqlite3 shell needs no conversion. Microseconds in an integer would be a few bytes shorter.
//
// # Claims in plain SQL
//
// From any language, in any transaction on the file:
//
//	INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest)
//	VALUES (…) ON CONFLICT DO NOTHING
//
// The same key with the same payload_digest is ignored, however it is written; with another digest it is an error, also
// with OR IGNORE and ON CONFLICT DO NOTHING, because one key names one effect. Place, kind and times are filled in; a
// leased run's claims name run_epoch. OR REPLACE never replaces: it is stopped before the insert, because SQLite would
// delete the old row without asking any trigger.
//
// # What survives what
//
//	the process is killed      whatever was committed; nothing half; no lock stays
//	the host loses power       whatever was committed (WAL with synchronous=FULL), as far as the disk keeps what it says
//	COMMIT reports an error    perhaps committed; the same move again is harmless
//	the disk is full           nothing is written; reads go on; the engine must stop sending
//	the queue is emptied       nothing is lost; Scan fills it
//	the file is restored older an epoch: see ledger_epochs
//
// # What to know about the file
//
// It must be on a local disk: SQLite's locks and its shared memory do not work over a network. Beside it are two
// files (-wal, -shm) that belong to it. Copy it with VACUUM INTO or the shell's .backup, not with cp; and never open and close
// it by other means within this process, because POSIX drops a process's locks on a file when any descriptor of it is closed.
package sqlite
