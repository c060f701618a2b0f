// Package config reads pawl.yaml: one typed configuration out of a file and PAWL_… environment variables, with every
// fault found at once, each in one line that names the key, its place and the fix.
//
// A relative path in a file is relative to the file's directory, so that a program means the same wherever it is started.
// What an adapter is configured with, and the ledger's URL, may hold secrets: their types print as "(hidden)" in logs,
// errors and JSON alike.
package config
