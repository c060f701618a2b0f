// Package channel is the contract between the Pawl engine and one kind of outside system: a mail server, a chat
// service, a chain. It holds the [Channel] interface, the values that cross it and the capability [Sheet], and
// nothing else. It imports the standard library only, so that an adapter never compiles the engine.
//
// # The three calls
//
// For one effect the engine calls, in this order:
//
//  1. [Channel.IdempotencyToken], before the first send. What it returns is stored in the ledger before the wire is
//     touched and is never made again for that version.
//  2. [Channel.Send], once per attempt, after the attempt was stamped in the ledger. Send calls [Attempt.Begin] right
//     before the last step that makes the effect.
//  3. [Channel.Probe], after a crash or an ambiguous answer: what became of this effect?
//
// # Who decides what
//
// The adapter reports what it saw; the engine decides what it means. An adapter that is not sure says so: the zero
// [Outcome] is ambiguous, the zero [Finding] is unknown, an error of no type known here is ambiguous, and an unknown
// value on the sheet counts as the weakest. Only [ProvenNotSent] makes a retry safe.
//
// # Concurrency
//
// The engine calls a Channel from many goroutines. Implementations MUST be safe for concurrent use. For one intent,
// Send is never called twice at once by one engine, but an engine that lost its fence may still be inside Send while
// another one calls Probe.
package channel
