package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func (h *handler) addDecisions(api huma.API) {
	operators := []string{pawlclient.ScopeOperate}
	const at = "/v1/intents/{run_id}/{effect_key}"
	add(h, api, operation{
		method: http.MethodPost, path: at + "/cancel", id: "cancel", tag: "Intents", scopes: operators, summary: "Ask for the end of an intent",
		text: "What was never sent ends at once, as never sent. Where an attempt may have taken effect nothing more is sent, and it is found out first what became of it.",
	}, func(ctx context.Context, in *struct {
		KeyPath
		Body pawlclient.Cancel
	}) (*intentOutput, error) {
		i, err := h.Service.Cancel(ctx, in.key(), in.Body)
		return &intentOutput{i}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/resolve", id: "resolve", tag: "Intents", scopes: operators, summary: "Decide, as a person, what became of an intent",
		text: "sent: it took effect. notsent: it did not and never will. retry: it did not and never will, send it again. unknown: nobody will know. " +
			"Look at the outside system first: a wrong retry sends twice. 409 moved: the intent has changed since it was shown.",
	}, func(ctx context.Context, in *struct {
		KeyPath
		Body pawlclient.Resolve
	}) (*intentOutput, error) {
		i, err := h.Service.Resolve(ctx, in.key(), in.Body)
		return &intentOutput{i}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/redrive", id: "redrive", tag: "Intents", scopes: operators, summary: "Claim an abandoned intent again, linked to it",
		status: http.StatusCreated, also: []int{http.StatusOK},
		text: "201: claimed under a new key. 200: it was redriven before; the intent of then. Where nobody knows whether the first one took effect, " +
			"accept_duplicates must say \"duplicates are acceptable\".",
	}, func(ctx context.Context, in *struct {
		KeyPath
		Body pawlclient.Redrive
	}) (*claimOutput, error) {
		r, err := h.Service.Redrive(ctx, in.key(), in.Body)
		return &claimOutput{claimStatus(r), r}, err
	})
}
