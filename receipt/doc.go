// Package receipt turns what the ledger knows about one intent into portable,
// signed evidence, and checks such evidence with nothing but the file and a
// public key.
//
// An [Issuer] makes one receipt of a committed, held, abandoned or late intent.
// The document (schema dreamnet.receipt.v1) carries two digests over canonical
// JSON, and travels in a DSSE envelope signed with Ed25519:
//
//	Effect ──▶ payload ──▶ contentHash ──▶ digest ──▶ document ──▶ envelope
//	           (pawl.effect.v1)  {kind, payload,   {contentHash,   one canonical
//	                              subjectKey}       issuer, kind,   line of JSON
//	                                                subjectKey}
//
// [Verify] fails closed. It accepts three schemas (dreamnet.receipt.v1,
// receipt.v1, proof-artifact.v1), plain or in an envelope, names the check that
// failed and says what it did not check.
//
// What is authoritative: the ledger decides what happened to an intent; a
// receipt repeats it. A receipt that cannot be issued is owed, and never a
// reason to doubt the outcome.
//
//	what goes wrong                      what happens
//	evidence is not portable JSON        carried as text, base64 or a digest
//	a field no receipt can carry         *IssueError; the receipt is owed
//	key file readable by others          LoadKey refuses, with the fix
//	any byte of an envelope changed      Verify rejects
//	unknown schema, field, key           Verify rejects
//
// Invariants: the same effect gives the same digest whenever it is issued;
// an envelope has exactly one byte form; no private key appears in a log, an
// error or a receipt. Everything here is safe for concurrent use, except that a
// [KeyRing] is filled before it is shared, and a [Writer] or [Reader] has one
// user at a time.
package receipt
