// Package api is what the service does, over a ledger: once in this process ([Service], an implementation of
// [pawlclient.API]) and once over HTTP ([NewHandler], the same Service behind routes, tokens, limits and documentation).
//
// The Service decides nothing about effects. It turns requests into claims and moves, and results into the API's types. What it
// adds is who asked: every action of an operator is written to the audit trail before it is done, and again with what came of it.
// If the trail cannot be written, nothing is done.
//
// Every error that leaves a Service is a [*pawlclient.Problem]. Its Cause is the ledger's own error, for a caller in this process.
package api
