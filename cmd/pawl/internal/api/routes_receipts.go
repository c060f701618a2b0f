package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// envelope is the body of verify, as it came: a verdict on other bytes would be about something else.
type envelope struct {
	RawBody []byte `contentType:"application/json"`
}

func (h *handler) addReceipts(api huma.API) {
	readers := []string{pawlclient.ScopeRead}
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/receipts", id: "list-receipts", tag: "Receipts", scopes: readers, summary: "List issued receipts in order of issue",
	}, func(ctx context.Context, in *struct {
		RunID string `query:"run_id" format:"uuid" doc:"Only of this run"`
		Paging
	}) (*struct{ Body pawlclient.ReceiptPage }, error) {
		page, err := h.Service.Receipts(ctx, pawlclient.ReceiptFilter{RunID: in.RunID, Limit: in.Limit, After: in.After})
		return &struct{ Body pawlclient.ReceiptPage }{page}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/receipts/{id}", id: "get-receipt", tag: "Receipts", scopes: readers, summary: "Get a receipt with its signed envelope",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"200"`
	}) (*struct{ Body pawlclient.Receipt }, error) {
		r, err := h.Service.Receipt(ctx, in.ID)
		return &struct{ Body pawlclient.Receipt }{r}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/receipts/key", id: "get-receipt-key", tag: "Receipts", summary: "Get the public key of the receipts",
		text: "Any token will do.",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body pawlclient.PublicKey }, error) {
		k, err := h.Service.ReceiptKey(ctx)
		return &struct{ Body pawlclient.PublicKey }{k}, err
	})
	verify := operation{
		method: http.MethodPost, path: "/v1/receipts/verify", id: "verify-receipt", tag: "Receipts", scopes: readers, anyBody: true, maxBody: receipt.MaxDocument,
		summary: "Verify a receipt with the keys that this service trusts",
		text:    "The body is the envelope as it was given out. A receipt that is not good is a verdict and no problem: look at ok. Any verifier with the public key does the same.",
	}
	add(h, api, verify, func(ctx context.Context, in *envelope) (*struct{ Body pawlclient.Verdict }, error) {
		v, err := h.Service.VerifyReceipt(ctx, in.RawBody)
		return &struct{ Body pawlclient.Verdict }{v}, err
	})
	body := api.OpenAPI().Paths[verify.path].Post.RequestBody
	body.Content["application/json"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject, Description: "A DSSE envelope, or a plain receipt", AdditionalProperties: true}}
}
