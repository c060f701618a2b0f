package ledger

// Tx is the sealed handle of a caller's own transaction: made by postgres.Tx(pgx.Tx), postgres.SQLTx(*sql.Tx) or
// sqlite.Tx(*sql.Tx), or handed out by [Ledger.InTx]. A claim that is made through it commits or rolls back with
// whatever else the caller did.
type Tx struct{ handle any }

// SealTx makes a Tx. Only backends call it; each recognises its own handles and refuses others.
func SealTx(handle any) Tx { return Tx{handle} }

// Handle returns what SealTx was given. Only backends call it.
func (t Tx) Handle() any { return t.handle }
