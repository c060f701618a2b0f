// Package explain tells what happened to one effect, in sentences and in order, from what the ledger kept of it. It decides nothing
// and asks nobody: [Of] is a pure function.
package explain
