// Package boottime reads the clock that counts from the machine's boot and goes on while it sleeps. Engine and adapter
// share a machine, so an instant on this clock means the same to both, and nobody can set it.
package boottime
