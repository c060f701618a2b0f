// Package migrations holds the ledger's tables as plain SQL, embedded: one folder a database. The ledgers' migrators apply them; they can
// also be printed and applied by hand.
//
// A migration that was released never changes. The newest version in a folder is the one that the program needs: a ledger that has
// less is refused, and so is one that has more.
package migrations
