package api

import (
	"errors"
	"net/http"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Paths beside the API, on the same address.
const (
	PathMetrics = "/metrics"
	PathHealth  = "/healthz"
	PathReady   = "/readyz"
)

// Beside puts metrics and health beside the API: health for everybody, as whoever asks for it (a load balancer, an orchestrator) holds no
// token; metrics for whoever may read. apiHandler is one of [NewHandler].
func Beside(apiHandler, metrics, health, ready http.Handler) (http.Handler, error) {
	h, ok := apiHandler.(*handler)
	if !ok {
		return nil, errors.New("apiHandler is not one of NewHandler")
	}
	reads := route{scopes: []string{pawlclient.ScopeRead}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var to http.Handler
		switch r.URL.Path {
		case PathHealth:
			to = health
		case PathReady:
			to = ready
		case PathMetrics:
			to = metrics
		default:
			h.ServeHTTP(w, r)
			return
		}
		secure(w, r)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			p := newProblem(pawlclient.CodeInvalid, "this path takes GET and HEAD")
			p.Title, p.Status = "The method is not taken here", http.StatusMethodNotAllowed
			writeProblem(w, p)
			return
		}
		if r.URL.Path == PathMetrics {
			who, err := h.identify(r)
			if err != nil {
				writeProblem(w, outward(r.Context(), h.Logger, err).Problem)
				return
			}
			if p := reads.forbidden(who); p != nil {
				writeProblem(w, p)
				return
			}
		}
		to.ServeHTTP(w, r)
	}), nil
}
