// Package core is the engine: it takes claimed intents from a ledger, sends each through its channel once, and finds out
// what became of those whose sender died.
//
// # Overview
//
// An [Engine] runs, in one process, a dispatcher for each channel, one reconciler, and a keeper (heartbeats, the scan that mends the
// queue, owed receipts). Any number of engines may run on one ledger. None of them leads: the ledger's fences decide who may send
// what.
//
//	dispatcher:  fence ─▶ token ─▶ stamp ─▶ channel.Send ─▶ commit | accept | reopen | abandon | leave it ambiguous
//	reconciler:  due look ─▶ probing fence ─▶ decide ─▶ channel.Probe ─▶ decide ─▶ commit | reopen | hold | abandon | look later
//
// # Who is authoritative
//
// The ledger, on the database's clock. The engine keeps deadlines of its own that are earlier: each is counted from the moment before
// it asked the ledger.
//
// # What happens on each failure
//
//	the engine dies before the stamp      the fence dies; the reconciler reopens the intent: it was not sent
//	the engine dies after the stamp       the reconciler asks the outside system (or sends the same bytes again, where that is harmless)
//	the adapter dies, wire untouched      not sent: reopened at once
//	the adapter dies later                ambiguous: as if the engine had died
//	the ledger cannot be written          nothing is sent; evidence in hand is written as soon as it can be, late if need be
//	the fence is lost while sending       the evidence is handed in late; it settles the intent, or is kept beside it
//
// Where nothing can settle an intent, the channel's [Policy] decides, and a policy must be stated: hold, abandon or resend.
package core
