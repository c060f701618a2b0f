package observe

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// checkTimeout bounds all checks of one request.
const checkTimeout = 3 * time.Second

// Status is what a check found.
type Status string

const (
	OK       Status = "ok"
	Degraded Status = "degraded" // something is worse than it should be; the process does its work
	Failed   Status = "failed"
)

// Result is one line of an answer. Whoever can reach the port reads it, so that Reason is a text of ours: never one of a database or of
// an adapter, which may repeat what it was told.
type Result struct {
	Name    string `json:"name"`
	Channel string `json:"channel,omitempty"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"`
}

// Check looks at one thing. It ends with ctx.
type Check func(ctx context.Context) []Result

// answer is the body.
type answer struct {
	Status Status   `json:"status"`
	Checks []Result `json:"checks"`
}

// Health answers 200 with JSON while no check has failed, else 503. Degraded is 200: to take the process out of use would make nothing
// better.
func Health(checks ...Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		a := answer{Status: OK, Checks: []Result{}}
		for _, check := range checks {
			for _, result := range check(ctx) {
				a.Checks = append(a.Checks, result)
				a.Status = worse(a.Status, result.Status)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if a.Status == Failed {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(a) // whoever asked has gone
	})
}

func worse(a, b Status) Status {
	switch {
	case a == Failed || b == Failed:
		return Failed
	case a == Degraded || b == Degraded:
		return Degraded
	}
	return OK
}
