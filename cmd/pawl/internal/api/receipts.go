package api

import (
	"context"
	"encoding/json"

	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Receipts lists issued receipts in order of issue.
func (s *Service) Receipts(ctx context.Context, f pawlclient.ReceiptFilter) (pawlclient.ReceiptPage, error) {
	page := pawlclient.ReceiptPage{Receipts: []pawlclient.Receipt{}}
	if err := checkPage(f.Limit, f.After); err != nil {
		return page, err
	}
	filter := ledger.ReceiptFilter{Limit: f.Limit, After: ledger.Cursor(f.After)}
	if f.RunID != "" {
		run, err := runID("query.run_id", f.RunID)
		if err != nil {
			return page, err
		}
		filter.RunID = run
	}
	found, next, err := s.ledger.ReceiptPage(ctx, filter)
	if err != nil {
		return page, problem(err, "query")
	}
	page.Receipts, page.Next = viewReceipts(found), string(next)
	return page, nil
}

// ReceiptsOf lists the receipts of one intent, oldest first, also those that are owed. An intent without any, or none such, has none.
func (s *Service) ReceiptsOf(ctx context.Context, k pawlclient.Key) ([]pawlclient.Receipt, error) {
	key, err := keyOf(k)
	if err != nil {
		return nil, err
	}
	found, err := s.ledger.ReceiptsOf(ctx, key)
	return viewReceipts(found), problem(err, "path")
}

// Receipt returns one receipt.
func (s *Service) Receipt(ctx context.Context, id string) (pawlclient.Receipt, error) {
	if err := needText("path.id", id, maxKey, "give the receipt's id"); err != nil {
		return pawlclient.Receipt{}, err
	}
	r, err := s.ledger.Receipt(ctx, id)
	return viewReceipt(r), problem(err, "path")
}

// VerifyReceipt checks a receipt with the keys that this service trusts.
func (s *Service) VerifyReceipt(_ context.Context, envelope json.RawMessage) (pawlclient.Verdict, error) {
	if s.trusted.Len() == 0 {
		return pawlclient.Verdict{}, newProblem(pawlclient.CodeRefused, "no receipt key is configured here; verify with the issuer's public key: pawl receipt verify")
	}
	view, err := viewVerdict(receipt.Verify(envelope, receipt.VerifyOptions{Keys: s.trusted}))
	return view, problem(err, "body")
}

// ReceiptKey returns the public key of the receipts that are issued here.
func (s *Service) ReceiptKey(context.Context) (pawlclient.PublicKey, error) {
	if s.public == nil {
		return pawlclient.PublicKey{}, newProblem(pawlclient.CodeNotFound, "no receipt key is configured here")
	}
	pem, err := receipt.EncodePublicKey(s.public)
	if err != nil {
		return pawlclient.PublicKey{}, problem(err, "path")
	}
	id, err := receipt.Fingerprint(s.public)
	return pawlclient.PublicKey{PEM: string(pem), KeyID: id, Issuer: s.issuer}, problem(err, "path")
}
