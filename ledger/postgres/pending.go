package postgres

import (
	"context"
	"errors"

	"github.com/pawlworks/pawl/ledger"
)

var errPending = errors.New("not built yet")

func (l *Ledger) PutAPIToken(context.Context, ledger.APIToken) error   { return errPending }
func (l *Ledger) APITokens(context.Context) ([]ledger.APIToken, error) { return nil, errPending }
func (l *Ledger) APITokenByDigest(context.Context, string) (ledger.APIToken, error) {
	return ledger.APIToken{}, errPending
}
func (l *Ledger) RevokeAPIToken(context.Context, string, string) (ledger.APIToken, error) {
	return ledger.APIToken{}, errPending
}
func (l *Ledger) AppendAudit(context.Context, ledger.AuditEntry) error { return errPending }
func (l *Ledger) Audit(context.Context, int, ledger.Cursor) ([]ledger.AuditEntry, ledger.Cursor, error) {
	return nil, "", errPending
}
func (l *Ledger) ReceiptPage(context.Context, ledger.ReceiptFilter) ([]ledger.StoredReceipt, ledger.Cursor, error) {
	return nil, "", errPending
}
func (l *Ledger) Receipt(context.Context, string) (ledger.StoredReceipt, error) {
	return ledger.StoredReceipt{}, errPending
}
