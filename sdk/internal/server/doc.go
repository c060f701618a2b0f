// Package server is the adapter's side of the wire: it serves pawl.adapter.v1 for one channel.Channel, gives each Send
// its Begin, and turns panics and errors without a type into the strongest answer that is certainly true.
//
// # Begin
//
// Each Send has one gate. The gate lets Begin through once, and only while all of this holds: the call has not ended,
// its context is not cancelled, the engine lives, neither clock has reached the not-after, and the record was written.
// Engine and clocks are looked at again after the record was written, because the process may have been stopped in
// between.
//
// # What an error without a type becomes
//
//	the sheet declares Begin | the gate let Begin through | answer
//	yes                      | no                         | not sent
//	yes                      | yes                        | ambiguous
//	no                       | either                     | ambiguous
//
// After the handler has returned the gate is shut for good, so "not sent" stays true.
package server
