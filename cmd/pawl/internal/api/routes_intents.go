package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Bounds of a wait.
const (
	defaultWait = 30 * time.Second
	maxWait     = time.Minute
	// answerTime is how long an answer may take to be written once the wait is over.
	answerTime = 10 * time.Second
)

type (
	claimInput struct{ Body pawlclient.Claim }
	batchInput struct {
		Body struct {
			Claims []pawlclient.Claim `json:"claims" minItems:"1" maxItems:"1000" nullable:"false" doc:"All of them are taken, or none"`
		}
	}
	claimOutput struct {
		Status int
		Body   pawlclient.ClaimResult
	}
	batchOutput struct {
		Status int
		Body   pawlclient.ClaimBatch
	}
	// KeyPath is the key in a path. Its name is exported because huma reads no others where they are embedded.
	KeyPath struct {
		RunID     string `path:"run_id" format:"uuid" doc:"The run that owns the effect"`
		EffectKey string `path:"effect_key" maxLength:"640" doc:"The effect's key, escaped: a slash is %2F, a # is %23"`
	}
	intentOutput struct{ Body pawlclient.Intent }
	// Paging is what every list takes.
	Paging struct {
		Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"At most this many; 0 or left out: 100"`
		After string `query:"after" maxLength:"2048" doc:"The next of the page before"`
	}
	intentsOutput struct{ Body pawlclient.IntentPage }
)

func (k KeyPath) key() pawlclient.Key { return pawlclient.Key{RunID: k.RunID, EffectKey: k.EffectKey} }

// claimStatus is 201 if anything is new.
func claimStatus(results ...pawlclient.ClaimResult) int {
	for _, r := range results {
		if r.Status == pawlclient.ClaimNew {
			return http.StatusCreated
		}
	}
	return http.StatusOK
}

func (h *handler) addIntents(api huma.API) {
	claims, readers := []string{pawlclient.ScopeClaim}, []string{pawlclient.ScopeRead}
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/intents", id: "claim", tag: "Intents", scopes: claims, maxBody: h.MaxClaimBody,
		summary: "Claim an effect", status: http.StatusCreated, also: []int{http.StatusOK},
		text: "201: the effect is claimed, and will be sent. 200: it was claimed before with the same payload; nothing is sent again. " +
			"409 key_conflict: the key has another payload; the problem holds the intent. Repeat it freely if no answer came.",
	}, func(ctx context.Context, in *claimInput) (*claimOutput, error) {
		r, err := h.Service.Claim(ctx, in.Body)
		return &claimOutput{claimStatus(r), r}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/intents/batch", id: "claim-all", tag: "Intents", scopes: claims, maxBody: h.MaxClaimBody,
		summary: "Claim up to 1000 effects: all of them, or none", status: http.StatusCreated, also: []int{http.StatusOK},
		text: "Results are in the order of the claims. 200: all of them were claimed before. A problem names the claim that is wrong, such as body.claims[3].payload.to, and nothing was claimed.",
	}, func(ctx context.Context, in *batchInput) (*batchOutput, error) {
		b, err := h.Service.ClaimAll(ctx, in.Body.Claims)
		return &batchOutput{claimStatus(b.Results...), b}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/intents", id: "list-intents", tag: "Intents", scopes: readers, summary: "List intents, newest claim first",
	}, func(ctx context.Context, in *struct {
		RunID   string `query:"run_id" format:"uuid" doc:"Only of this run"`
		Channel string `query:"channel" maxLength:"128" doc:"Only of this channel"`
		State   string `query:"state" enum:"intent,dispatched,committed,abandoned" doc:"Only in this state"`
		Held    bool   `query:"held" doc:"Only those that wait for a person"`
		Paging
	}) (*intentsOutput, error) {
		page, err := h.Service.Intents(ctx, pawlclient.IntentFilter{
			RunID: in.RunID, Channel: in.Channel, State: in.State, Held: in.Held, Limit: in.Limit, After: in.After,
		})
		return &intentsOutput{page}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/holds", id: "list-holds", tag: "Intents", scopes: readers, summary: "List intents that wait for a person",
		text: "Nothing could settle what became of them. The fence_number of each is what resolve wants as number.",
	}, func(ctx context.Context, in *struct {
		RunID   string `query:"run_id" format:"uuid" doc:"Only of this run"`
		Channel string `query:"channel" maxLength:"128" doc:"Only of this channel"`
		Paging
	}) (*intentsOutput, error) {
		page, err := h.Service.Intents(ctx, pawlclient.IntentFilter{RunID: in.RunID, Channel: in.Channel, Held: true, Limit: in.Limit, After: in.After})
		return &intentsOutput{page}, err
	})
	h.addIntent(api)
}

func (h *handler) addIntent(api huma.API) {
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/intents/{run_id}/{effect_key}", id: "get-intent", tag: "Intents",
		scopes: []string{pawlclient.ScopeClaim, pawlclient.ScopeRead, pawlclient.ScopeOperate}, summary: "Get an intent with its attempts, findings and receipts",
		text: "The payload is shown only with payload=true and the scope operate: it may hold personal data.",
	}, func(ctx context.Context, in *struct {
		KeyPath
		Payload bool `query:"payload" doc:"Show the payload; needs the scope operate"`
	}) (*struct{ Body pawlclient.Detail }, error) {
		if payload := (route{scopes: []string{pawlclient.ScopeOperate}}); in.Payload {
			if p := payload.forbidden(identityOf(ctx)); p != nil {
				return nil, p
			}
		}
		d, err := h.Service.Intent(ctx, in.key(), in.Payload)
		return &struct{ Body pawlclient.Detail }{d}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/intents/{run_id}/{effect_key}/wait", id: "wait", tag: "Intents",
		scopes: []string{pawlclient.ScopeClaim, pawlclient.ScopeRead}, summary: "Wait for the end of an intent",
		text: "Answers when the intent is committed, abandoned or held, or after the timeout with what is known then: look at its state.",
	}, func(ctx context.Context, in *struct {
		KeyPath
		Timeout string `query:"timeout" maxLength:"32" example:"30s" doc:"How long to wait, such as 30s; at most 60s; left out: 30s"`
	}) (*intentOutput, error) {
		i, err := h.wait(ctx, in.key(), in.Timeout)
		return &intentOutput{i}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/intents/{run_id}/{effect_key}/receipts", id: "get-intent-receipts", tag: "Intents",
		scopes: []string{pawlclient.ScopeRead}, summary: "Get an intent's receipts, also those that are owed still",
	}, func(ctx context.Context, in *KeyPath) (*struct{ Body receiptList }, error) {
		found, err := h.Service.ReceiptsOf(ctx, in.key())
		return &struct{ Body receiptList }{receiptList{found}}, err
	})
}

type receiptList struct {
	Receipts []pawlclient.Receipt `json:"receipts" nullable:"false"`
}

// wait is one long poll. So many are open at once; one more is told to come again.
func (h *handler) wait(ctx context.Context, k pawlclient.Key, text string) (pawlclient.Intent, error) {
	timeout := defaultWait
	if text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxWait {
			return pawlclient.Intent{}, invalid("query.timeout", "must be a duration between 0s and 60s, such as 30s")
		}
		timeout = d
	}
	select {
	case h.waits <- struct{}{}:
		defer func() { <-h.waits }()
	default:
		p := newProblem(pawlclient.CodeRateLimited, "%d requests wait already; ask again in a moment, or read the intent without waiting", cap(h.waits))
		p.RetryAfter = 1
		return pawlclient.Intent{}, p
	}
	extend(ctx, timeout+answerTime)
	return h.Service.waitUntil(ctx, k, timeout, h.Stopping)
}
