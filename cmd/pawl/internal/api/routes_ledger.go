package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// longWork is how long the answer may take to what is done to every intent.
const longWork = 10 * time.Minute

type (
	engineList struct {
		Engines []pawlclient.Engine `json:"engines" nullable:"false"`
	}
	epochList struct {
		Epochs []pawlclient.Epoch `json:"epochs" nullable:"false" doc:"Oldest first; the last is the present one"`
	}
)

func (h *handler) addLedger(api huma.API) {
	readers, admins := []string{pawlclient.ScopeRead}, []string{pawlclient.ScopeAdmin}
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/stats", id: "get-stats", tag: "Ledger", scopes: readers, summary: "Count intents and receipts",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body pawlclient.Stats }, error) {
		s, err := h.Service.Stats(ctx)
		return &struct{ Body pawlclient.Stats }{s}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/engines", id: "list-engines", tag: "Ledger", scopes: readers, summary: "List the engines that the ledger has seen",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body engineList }, error) {
		found, err := h.Service.Engines(ctx)
		return &struct{ Body engineList }{engineList{found}}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/epochs", id: "list-epochs", tag: "Ledger", scopes: readers, summary: "List the lives of the ledger",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body epochList }, error) {
		found, err := h.Service.Epochs(ctx)
		return &struct{ Body epochList }{epochList{found}}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/epochs", id: "open-epoch", tag: "Ledger", scopes: admins, summary: "Begin a new life of the ledger after a restore", status: http.StatusCreated,
		text: "Fences of earlier lives match no more, and what has not ended is probed before it is sent. 409 moved: from is not the present epoch.",
	}, func(ctx context.Context, in *struct{ Body pawlclient.OpenEpoch }) (*struct{ Body pawlclient.Epoch }, error) {
		extend(ctx, longWork)
		e, err := h.Service.OpenEpoch(ctx, in.Body)
		return &struct{ Body pawlclient.Epoch }{e}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/prune", id: "prune", tag: "Ledger", scopes: admins, summary: "Remove payload, tokens and log of what ended long ago",
		text: "Run, key, digest, state, external id and receipts stay: a claim of the key is still deduplicated. With dry_run it only counts.",
	}, func(ctx context.Context, in *struct{ Body pawlclient.Prune }) (*struct{ Body pawlclient.Pruned }, error) {
		extend(ctx, longWork)
		p, err := h.Service.Prune(ctx, in.Body)
		return &struct{ Body pawlclient.Pruned }{p}, err
	})
}
