// Package server puts a ledger, the receipt key, adapter processes and an engine together from one configuration, runs
// them, and ends them in order. Whatever cannot be had is an error at the start, before anything was claimed or sent.
//
// # Starting and stopping
//
//	open the ledger ─▶ load the key ─▶ launch adapters ─▶ check the policies ─▶ run
//	first signal:  take nothing more, finish what is under way, up to stop_grace
//	second signal: end the adapters at once; what was under way is recorded as ambiguous and reconciled later
//
// A kill at any moment is safe as well: the ledger knows what may have been sent.
package server
