package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

type (
	tokenList struct {
		Tokens []pawlclient.APIToken `json:"tokens" nullable:"false"`
	}
	tokenOutput struct{ Body pawlclient.APIToken }
)

func (h *handler) addAccess(api huma.API) {
	admins := []string{pawlclient.ScopeAdmin}
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/whoami", id: "whoami", tag: "Access", summary: "Say who the request counts as", text: "Any token will do.",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body pawlclient.Identity }, error) {
		who := identityOf(ctx)
		return &struct{ Body pawlclient.Identity }{pawlclient.Identity{
			Name: who.Name, TokenID: who.TokenID, Scopes: who.scopes, Tokenless: who.tokenless,
		}}, nil
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/tokens", id: "list-tokens", tag: "Access", scopes: admins, summary: "List the tokens of this API, without their secrets",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body tokenList }, error) {
		found, err := h.Service.APITokens(ctx)
		return &struct{ Body tokenList }{tokenList{found}}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/tokens", id: "create-token", tag: "Access", scopes: admins, summary: "Make a token", status: http.StatusCreated,
		text: "The secret is in the answer and never shown again: only its digest is kept. Once the first token exists, every request needs one.",
	}, func(ctx context.Context, in *struct{ Body pawlclient.NewAPIToken }) (*struct{ Body pawlclient.IssuedAPIToken }, error) {
		t, err := h.Service.CreateAPIToken(ctx, in.Body)
		return &struct{ Body pawlclient.IssuedAPIToken }{t}, err
	})
	add(h, api, operation{
		method: http.MethodDelete, path: "/v1/tokens/{id}", id: "revoke-token", tag: "Access", scopes: admins, summary: "Revoke a token",
		text: "Other replicas take it for a few seconds more.",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id" format:"uuid"`
		By string `query:"by" maxLength:"200" doc:"Who; left out, the token's name"`
	}) (*tokenOutput, error) {
		t, err := h.Service.RevokeAPIToken(ctx, in.ID, in.By)
		return &tokenOutput{t}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/audit", id: "list-audit", tag: "Access", scopes: admins, summary: "List what operators asked for, newest first",
		text: "Each action has a row asked, and then one done or refused. An asked without another one was cut off: it may have been done.",
	}, func(ctx context.Context, in *Paging) (*struct{ Body pawlclient.AuditPage }, error) {
		page, err := h.Service.Audit(ctx, in.Limit, in.After)
		return &struct{ Body pawlclient.AuditPage }{page}, err
	})
}
