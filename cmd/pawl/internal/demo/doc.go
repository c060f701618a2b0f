// Package demo is the product in a minute: mails are claimed, an engine sends them through an adapter, and engine, adapter and
// connections are killed at random moments, also right between the server's acceptance and its reply. In the end the outside world's own
// count is held against the ledger's.
//
// The engine is this program started again as a child process ("pawl engine"), the adapter is its child. Nothing is asked of them
// about what happened: the mailbox counts, the ledger is read, the receipts are verified with the public key alone.
package demo
