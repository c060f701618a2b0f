// Package postgres keeps the ledger in Postgres 14 or newer, for programs that claim effects in the transactions that they have anyway,
// and for any number of engines on one database.
//
// # Use
//
// Migrate once, open, and claim in your own transaction:
//
//	_, err := postgres.Migrate(ctx, postgres.MigrateOptions{URL: url})
//	l, err := postgres.Open(ctx, postgres.Options{URL: url})
//	…
//	tx, err := pool.Begin(ctx) // your own pgx.Tx; postgres.SQLTx takes a *sql.Tx
//	… your own writes …
//	results, err := l.Claim(ctx, postgres.Tx(tx), ledger.Claim{…})
//	err = tx.Commit(ctx)
//
// Either your writes and the intent are there, or neither is. When Claim returns [ledger.ErrRetryTransaction] nothing was
// written: run the whole transaction again. A COMMIT that returned an error may have worked; claiming again is then
// deduplicated. Any language can claim by SQL alone: an INSERT into effect_intents of run_id, effect_key, channel, payload and
// payload_digest is enough, and triggers do the rest.
//
// # Who is authoritative
//
// The row in effect_intents. A move locks it, reads the clock and all that stands beside it by a statement that runs after the lock
// was got, asks [ledger.Apply], and writes what that says, conditional on state and fence number. Triggers refuse what Apply would
// refuse, for whoever writes and by whatever statement, the replica role included. dispatch_queue holds hints: emptied by
// hand, [Ledger.Scan] writes it anew.
//
//	effect_intents   the truth; no index on a column that changes, so updates stay on their page
//	dispatch_queue   one narrow row for each intent that lives: who looks at it, and when
//	lane_order       the next place of a lane; a claimer holds the row until it commits
//	lanes            whose turn it is; the last number of the lane's sequence
//
// # Round trips
//
// A move takes two: lock and read; write and commit. A batch of fences takes three, whatever its size. A claim takes two for a batch,
// one more if some of it was there already, and one for each lease.
//
// # Locks
//
// Everybody locks in this order: the intent, its lane, the order of its lane, queue rows. [Ledger.Fence] never waits: it skips rows
// and lanes that somebody else holds. A deadlock or a serialization failure in a transaction of the ledger's own is run again inside.
//
// # What goes wrong
//
//	what goes wrong                          what the caller sees
//	connection breaks before COMMIT          nothing; it is run again, within the statement time-out
//	answer to COMMIT is lost                 an error; the same move again, under the same fence, is harmless
//	the server is a standby, or read-only    ErrReadOnly; connections are made anew, to find the primary
//	the server does not answer               an error after Options.StatementTimeout, which is the commit bound
//	the synchronous standby does not answer  an error: what is on the primary alone is not durable
//	no signer, or signing fails              nothing; the receipt is owed until PayReceipts
//
// # Poolers
//
// No session state is used, but for the lock of [Migrate]: settings are made for one transaction, there is no LISTEN and no advisory
// lock. Where the connection is direct, named prepared statements spare the server its planning; behind a pooler, which [Open] notices,
// there are none. Migrate connects directly.
//
// # Durability
//
// Open refuses a server with fsync=off. Transactions of the ledger's own set synchronous_commit=on, or keep remote_apply. A claim is as
// durable as your own transaction: it is never sent before it is durable, for the fence that takes it is flushed after it.
package postgres
