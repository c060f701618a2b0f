package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// route is what is known of a route before its own code runs.
type route struct {
	method, path string
	// scopes are those of which any one is needed; none: any token.
	scopes []string
	// public routes need no token.
	public bool
	// maxBody bounds the body, in bytes; 0: the default. anyBody leaves all judgement of the body to the route.
	maxBody int64
	anyBody bool
}

func (r route) forbidden(who identity) *pawlclient.Problem {
	if who.may(r.scopes) {
		return nil
	}
	return newProblem(pawlclient.CodeForbidden, "this needs a token with the scope %s; this one has %s", strings.Join(r.scopes, " or "), strings.Join(who.scopes, ", "))
}

// operation is a route and what its documentation says.
type operation struct {
	method, path, id, tag, summary, text string
	scopes                               []string
	maxBody                              int64
	anyBody                              bool
	status                               int   // of success; 0: 200
	also                                 []int // other statuses of success with the same body
}

// add registers a route with huma, which decodes, validates and documents it.
func add[I, O any](h *handler, api huma.API, op operation, run func(ctx context.Context, in *I) (*O, error)) {
	h.routes[op.method+" "+op.path] = route{method: op.method, path: op.path, scopes: op.scopes, maxBody: op.maxBody, anyBody: op.anyBody}
	described := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary, Description: op.text,
		DefaultStatus: op.status, Security: security(op.scopes), MaxBodyBytes: -1, BodyReadTimeout: -1, SkipValidateBody: op.anyBody,
		Responses: map[string]*huma.Response{"default": problemResponse(api)},
	}
	huma.Register(api, described, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, in)
		if err != nil {
			return nil, outward(ctx, h.Logger, err)
		}
		return out, nil
	})
	item := api.OpenAPI().Paths[op.path]
	for _, registered := range []*huma.Operation{item.Get, item.Post, item.Delete} {
		if registered != nil && registered.Method == op.method {
			finish(registered, op)
		}
	}
}

// finish completes what huma wrote of an operation.
func finish(o *huma.Operation, op operation) {
	success := o.Responses[statusText(op.status)]
	for _, status := range op.also {
		again := *success
		again.Description = http.StatusText(status)
		o.Responses[statusText(status)] = &again
	}
	if o.RequestBody != nil {
		o.RequestBody.Required = true
	}
}

// security says which scopes a route wants: any one of them, or, without any, any token.
func security(scopes []string) []map[string][]string {
	if len(scopes) == 0 {
		return []map[string][]string{{"token": {}}}
	}
	var any []map[string][]string
	for _, s := range withAdmin(scopes) {
		any = append(any, map[string][]string{"token": {s}})
	}
	return any
}

// withAdmin adds the scope that includes all.
func withAdmin(scopes []string) []string {
	if slices.Contains(scopes, pawlclient.ScopeAdmin) {
		return scopes
	}
	return append(slices.Clone(scopes), pawlclient.ScopeAdmin)
}
