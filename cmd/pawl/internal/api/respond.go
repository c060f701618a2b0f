package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const problemType = "application/problem+json"

// httpProblem is a problem as huma answers it.
type httpProblem struct{ *pawlclient.Problem }

func (p *httpProblem) GetStatus() int                      { return p.Status }
func (p *httpProblem) ContentType(string) string           { return problemType }
func (p *httpProblem) GetHeaders() http.Header             { return problemHeaders(p.Problem) }
func (p *httpProblem) Unwrap() error                       { return p.Problem }
func (p *httpProblem) MarshalJSON() ([]byte, error)        { return json.Marshal(p.Problem) }
func (p *httpProblem) Schema(r huma.Registry) *huma.Schema { return problemSchema(r) }

func problemHeaders(p *pawlclient.Problem) http.Header {
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	return h
}

// writeProblem answers with a problem outside of huma.
func writeProblem(w http.ResponseWriter, p *pawlclient.Problem) {
	for name, values := range problemHeaders(p) {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p) // nobody is left to tell
}

// outward is what a client is told of an error. What went wrong inside goes to the log: it can name hosts and tables.
func outward(ctx context.Context, logger *slog.Logger, err error) *httpProblem {
	var p *pawlclient.Problem
	if !errors.As(err, &p) {
		p = newProblem(pawlclient.CodeInternal, "")
		p.Cause = err
	}
	told := *p
	switch p.Code {
	case pawlclient.CodeUnavailable:
		told.Detail = "ask again in a moment; whoever runs the service finds the cause in its log under this request id: " + requestID(ctx)
	case pawlclient.CodeInternal:
		told.Detail = "whoever runs the service finds the cause in its log under this request id: " + requestID(ctx)
	default:
		return &httpProblem{&told}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		logger.ErrorContext(ctx, EventRequestFailed, "request_id", requestID(ctx), "code", p.Code, "error", p.Detail)
	}
	return &httpProblem{&told}
}

// humaProblem makes a problem of what huma itself refuses, without the values that it would quote.
func humaProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code := pawlclient.CodeInvalid
	switch {
	case m.Status == http.StatusRequestEntityTooLarge:
		code = pawlclient.CodeTooLarge
	case m.Status >= http.StatusInternalServerError:
		code = pawlclient.CodeInternal
	}
	p := newProblem(code, "")
	p.Status = m.Status
	for _, e := range m.Errors {
		message := e.Message
		if strings.HasPrefix(message, "expected string to be RFC 4122 uuid") { // goes on with a piece of the value
			message = "is not a UUID"
		}
		p.Errors = append(p.Errors, pawlclient.FieldError{Location: clipped(e.Location, 200), Message: clipped(message, 500)})
	}
	if len(p.Errors) == 0 {
		p.Detail = m.Detail
	}
	return &httpProblem{p}, nil
}

func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// secure sets the headers that every answer has.
func secure(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
