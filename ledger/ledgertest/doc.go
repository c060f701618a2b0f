// Package ledgertest is the one suite that every backend of the ledger passes: what the interface in package ledger
// promises, whoever implements it, and what the database itself refuses, whoever writes to it.
//
// A backend's own test calls [Run] with a function that opens an empty, migrated ledger:
//
//	func TestLedger(t *testing.T) { ledgertest.Run(t, open) }
//
// Each topic of the suite opens one ledger and each of its tests uses channels, runs and lanes of its own in it, so that
// a backend is migrated a few dozen times and not a few hundred. Tests never sleep for a fence to end: they move the
// fence's expiry by plain SQL, which the database allows.
//
// Run with -v to see the table of illegal writes, cell by cell.
package ledgertest
