package server

import "strings"

// LedgerError says that the ledger cannot be used: it does not answer, is not migrated, is from a newer version, or is
// another one than the configuration names.
type LedgerError struct {
	Ledger string // without its password
	Err    error
}

func (e *LedgerError) Error() string { return "ledger " + e.Ledger + ": " + e.Err.Error() }
func (e *LedgerError) Unwrap() error { return e.Err }

// AdapterError says that an adapter could not be started.
type AdapterError struct {
	Channel string
	Err     error
}

func (e *AdapterError) Error() string {
	return "channel " + e.Channel + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}
func (e *AdapterError) Unwrap() error { return e.Err }
