package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

type (
	// RunPath is the run in a path.
	RunPath struct {
		RunID string `path:"run_id" format:"uuid"`
	}
	runOutput struct {
		Status int
		Body   pawlclient.Run
	}
	leaseOutput struct{ Body pawlclient.Lease }
)

// same refuses a lease of another run than the path names.
func (r RunPath) same(l pawlclient.Lease, at string) error {
	if !strings.EqualFold(r.RunID, l.RunID) {
		return invalid(at+".run_id", "is another run than the path names")
	}
	return nil
}

func (h *handler) addRuns(api huma.API) {
	claims := []string{pawlclient.ScopeClaim}
	const at = "/v1/runs/{run_id}"
	add(h, api, operation{
		method: http.MethodPost, path: "/v1/runs", id: "create-run", tag: "Runs", scopes: claims, summary: "Make a run", status: http.StatusCreated, also: []int{http.StatusOK},
		text: "200: a run with this id or idempotency key is there already, and is the answer. A run that needs no lease need not be made: its id is enough.",
	}, func(ctx context.Context, in *struct{ Body pawlclient.NewRun }) (*runOutput, error) {
		r, created, err := h.Service.CreateRun(ctx, in.Body)
		status := http.StatusOK
		if created {
			status = http.StatusCreated
		}
		return &runOutput{status, r}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: at, id: "get-run", tag: "Runs", scopes: []string{pawlclient.ScopeClaim, pawlclient.ScopeRead}, summary: "Get a run",
	}, func(ctx context.Context, in *RunPath) (*struct{ Body pawlclient.Run }, error) {
		r, err := h.Service.Run(ctx, in.RunID)
		return &struct{ Body pawlclient.Run }{r}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/cancel", id: "cancel-run", tag: "Runs", scopes: []string{pawlclient.ScopeOperate},
		summary: "End a run, whoever holds it, and cancel its unsent intents",
	}, func(ctx context.Context, in *struct {
		RunPath
		Body pawlclient.Cancel
	}) (*struct{ Body pawlclient.Run }, error) {
		r, err := h.Service.CancelRun(ctx, in.RunID, in.Body)
		return &struct{ Body pawlclient.Run }{r}, err
	})
	h.addLeases(api, at+"/lease", claims)
}

func (h *handler) addLeases(api huma.API, at string, claims []string) {
	add(h, api, operation{
		method: http.MethodPost, path: at, id: "acquire-lease", tag: "Runs", scopes: claims, summary: "Take a run's lease",
		text: "Its holder's own deadline is the moment before it asked, plus remaining_seconds. 409 lease_held: somebody else holds it.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Body pawlclient.AcquireLease
	}) (*leaseOutput, error) {
		l, err := h.Service.AcquireLease(ctx, in.RunID, in.Body)
		return &leaseOutput{l}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/renew", id: "renew-lease", tag: "Runs", scopes: claims, summary: "Move a lease's expiry",
		text: "409 lease_lost: it is held under another number, or has expired. Stop, and write nothing more under it.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Body pawlclient.RenewLease
	}) (*leaseOutput, error) {
		if err := in.same(in.Body.Lease, "body.lease"); err != nil {
			return nil, err
		}
		l, err := h.Service.RenewLease(ctx, in.Body)
		return &leaseOutput{l}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/verify", id: "verify-lease", tag: "Runs", scopes: claims, summary: "Check that a lease is held", status: http.StatusNoContent,
		text: "204: it is held. 409 lease_lost: it is not.",
	}, func(ctx context.Context, in *struct {
		RunPath
		Body pawlclient.Lease
	}) (*struct{}, error) {
		if err := in.same(in.Body, "body"); err != nil {
			return nil, err
		}
		return nil, h.Service.VerifyLease(ctx, in.Body)
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/release", id: "release-lease", tag: "Runs", scopes: claims, summary: "End a lease", status: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		RunPath
		Body pawlclient.ReleaseLease
	}) (*struct{}, error) {
		if err := in.same(in.Body.Lease, "body.lease"); err != nil {
			return nil, err
		}
		return nil, h.Service.ReleaseLease(ctx, in.Body)
	})
}
