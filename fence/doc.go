// Package fence holds ownership that expires: the [Fence] of one dispatch, the [Lease] of a run, and the heartbeats of
// engine instances.
//
// # Who is authoritative
//
// The database is. Its clock decides every expiry; a process keeps its own, earlier deadline, counted from before it
// asked. A number that only grows tells a worker that was overtaken from the one that overtook it: every later write
// names the number, and a write that names an old one changes nothing.
//
// A fence is dead when it expired by more than the clock allowance. A lease past its ceiling of reclaims is
// quarantined: a run that kills its workers must not go round for ever.
//
// A worker holds the lease of a run through a [Keeper]: it renews in the background and ends the worker's context in time.
//
// Storage is named by the small interface [Storage]; the ledgers implement it on the agent_runs table, and a host that
// has a lease table of its own implements [Verifier].
package fence
