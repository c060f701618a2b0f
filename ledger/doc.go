// Package ledger is the durable record of intents: the rows, the moves that they may make, and the interface that the
// backends (ledger/postgres, ledger/sqlite) implement.
//
// # Overview
//
// An intent says that an effect is wanted. It is claimed in the caller's own transaction and moves
//
//	claim           fence                 evidence
//	─────▶ intent ─────────▶ dispatched ───────────▶ committed
//	         │ ▲                │  ↺ │
//	         │ └──── reopen ────┘    └── abandon ──▶ abandoned
//	         └── cancel, expire, refuse ───────────▶ abandoned
//
// and no other way. ↺ is a probing fence, accepted, or a hold: the row stays dispatched.
//
// # Who is authoritative
//
// The row in effect_intents decides, on the database's clock. The dispatch queue holds hints and can be emptied at any
// time. A backend never decides a move: it locks the row, reads the clock, asks [Apply], which is a pure function, and
// writes what [Apply] says, conditional on the state and fence that it read. Triggers in the database refuse whatever
// [Apply] would refuse, for writers that do not ask it.
//
// # Fences
//
// Every move names the fence that it relies on. A move whose fence is gone fails with [ErrFenceLost]; what its caller
// knows then is late evidence (the move [Late]), which is never lost: it settles a row that still lives and is kept
// beside a row that is terminal.
package ledger
