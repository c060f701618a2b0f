package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// Defaults of HandlerOptions.
const (
	DefaultMaxClaimBody = 16 << 20 // bytes
	DefaultMaxBody      = 64 << 10 // bytes
	DefaultRate         = 1000     // requests a second
	DefaultBurst        = 2000     // requests
	DefaultMaxWaits     = 256
	DefaultRequestTime  = 30 * time.Second
)

// Names of log events. They are stable.
const (
	EventRequest       = "api.request"        // one for each request: request_id, method, path, status, bytes, seconds, actor, remote
	EventRequestFailed = "api.request_failed" // what went wrong inside: request_id, code, error
	EventRequestPanic  = "api.panic"          // a mistake in the program: request_id, panic, stack
)

// HandlerOptions say how the service is reached. Only Service is required; zero values are the defaults.
type HandlerOptions struct {
	Service *Service
	// Version is shown in the documentation.
	Version string
	Logger  *slog.Logger
	// Tracer makes a span for each request. Without it a claim keeps the trace context that came with its request.
	Tracer trace.Tracer

	// MaxClaimBody and MaxBody bound the bodies of claims and of everything else, in bytes.
	MaxClaimBody, MaxBody int64
	// MaxBodies bounds the bytes of all bodies in memory at once: one more is told to come again. Four times MaxClaimBody.
	MaxBodies int64
	// Rate is how many requests a second a token, or an address without one, may make; Burst how many at once.
	Rate  float64
	Burst int
	// RequestTime bounds what a request does, but for a long poll and for what is done to every intent. DefaultRequestTime.
	RequestTime time.Duration
	// MaxWaits bounds how many requests wait for the end of an intent at once.
	MaxWaits int
	// TokenMemory is how long a token that was found good is not looked for again. DefaultTokenMemory.
	TokenMemory time.Duration
	// Stopping, if it is closed, ends requests that wait: they answer with what is known.
	Stopping <-chan struct{}
	// Observe, if set, is told of each request: its route as documented (empty where there is none), status and duration.
	Observe func(method, route string, status int, took time.Duration)
}

func (o HandlerOptions) withDefaults() (HandlerOptions, error) {
	switch {
	case o.Service == nil:
		return o, errors.New("the option Service is missing; make one with NewService")
	case o.MaxClaimBody < 0 || o.MaxBody < 0 || o.MaxBodies < 0:
		return o, errors.New("the options MaxClaimBody, MaxBody and MaxBodies must not be negative")
	case o.Rate < 0 || o.Burst < 0:
		return o, errors.New("the options Rate and Burst must not be negative")
	case o.MaxWaits < 0:
		return o, fmt.Errorf("MaxWaits: must not be negative, is %d", o.MaxWaits)
	case o.RequestTime < 0:
		return o, fmt.Errorf("RequestTime: must not be negative, is %s", o.RequestTime)
	case o.TokenMemory < 0:
		return o, fmt.Errorf("TokenMemory: must not be negative, is %s", o.TokenMemory)
	}
	o.MaxClaimBody, o.MaxBody = cmp.Or(o.MaxClaimBody, DefaultMaxClaimBody), cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxBodies = cmp.Or(o.MaxBodies, fullBodies*max(o.MaxClaimBody, o.MaxBody))
	o.Rate, o.Burst = cmp.Or(o.Rate, DefaultRate), cmp.Or(o.Burst, DefaultBurst)
	o.MaxWaits, o.TokenMemory = cmp.Or(o.MaxWaits, DefaultMaxWaits), cmp.Or(o.TokenMemory, DefaultTokenMemory)
	o.RequestTime = cmp.Or(o.RequestTime, DefaultRequestTime)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, string, int, time.Duration) {}
	}
	return o, nil
}

// handler is the HTTP side of a Service.
type handler struct {
	HandlerOptions
	mux    *http.ServeMux
	routes map[string]route // by pattern of the mux
	access *access
	limits *limits
	intake *intake
	waits  chan struct{}
}

// NewHandler serves the API under /v1, and its documentation under /openapi.json, /openapi.yaml and /docs. It belongs at the root of
// a server whose ReadHeaderTimeout is set. Errors name the option.
func NewHandler(o HandlerOptions) (http.Handler, error) {
	return newHandler(o)
}

func newHandler(o HandlerOptions) (*handler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &handler{
		HandlerOptions: o, mux: http.NewServeMux(), routes: map[string]route{}, access: newAccess(o.Service, o.TokenMemory),
		limits: newLimits(o.Rate, o.Burst), intake: &intake{most: o.MaxBodies}, waits: make(chan struct{}, o.MaxWaits),
	}
	if err := h.register(); err != nil {
		return nil, err
	}
	return h, nil
}

// ServeHTTP does for every request what is not a route's own: identity, limits, headers, log, and a problem for whatever goes wrong.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	rec := &recorder{ResponseWriter: w}
	secure(rec, r)
	id := newRequestID(r.Header.Get("X-Request-Id"))
	rec.Header().Set("X-Request-Id", id)
	ctx := context.WithValue(r.Context(), requestIDKey{}, id)
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	known, shown := h.find(r)
	if h.Tracer != nil {
		var span trace.Span
		ctx, span = h.Tracer.Start(ctx, strings.TrimSpace(r.Method+" "+shown), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	limit := time.AfterFunc(h.bodyTime(r)+h.RequestTime, end)
	defer limit.Stop()
	r = r.Clone(ctx)
	who := new(identity)
	defer func() {
		h.recovered(rec, r, recover())
		took := time.Since(began)
		h.Logger.InfoContext(ctx, EventRequest, "request_id", id, "method", r.Method, "path", clipped(r.URL.EscapedPath(), 2048), "status", rec.status,
			"bytes", rec.bytes, "seconds", took.Seconds(), "actor", who.Name, "token_id", who.TokenID, "remote", r.RemoteAddr)
		h.Observe(r.Method, shown, rec.status, took)
	}()
	held := &body{in: h.intake}
	defer held.giveBack()
	if p := h.admit(rec, r, known, who, held); p != nil {
		writeProblem(rec, p)
		return
	}
	ctx = WithActor(context.WithValue(ctx, identityKey{}, *who), who.Actor)
	limit.Reset(h.RequestTime)
	ctx = context.WithValue(ctx, deadlineKey{}, func(d time.Duration) {
		limit.Reset(d)
		_ = http.NewResponseController(rec).SetWriteDeadline(time.Now().Add(d)) // a writer without deadlines needs no other one
	})
	h.mux.ServeHTTP(rec, r.WithContext(ctx))
}

// bodyTime is how long the body of the request may take to come in.
func (h *handler) bodyTime(r *http.Request) time.Duration {
	if takesBody(r.Method) {
		return bodyTime
	}
	return 0
}

// deadlineKey finds the function that moves the deadline of the request and of its answer, for a route that waits.
type deadlineKey struct{}

// extend lets the request last, and the answer be written, so much later.
func extend(ctx context.Context, d time.Duration) {
	if move, ok := ctx.Value(deadlineKey{}).(func(time.Duration)); ok {
		move(d)
	}
}

// recovered answers a request whose route panicked.
func (h *handler) recovered(w *recorder, r *http.Request, panicked any) {
	if panicked == nil {
		if w.status == 0 { // as net/http does where nothing was written
			w.status = http.StatusOK
		}
		return
	}
	if panicked == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(panicked)
	}
	h.Logger.ErrorContext(r.Context(), EventRequestPanic, "request_id", requestID(r.Context()), "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, outward(r.Context(), h.Logger, newProblem(pawlclient.CodeInternal, "panic")).Problem)
	}
}

// find returns the route of a request, and its path as it is documented.
func (h *handler) find(r *http.Request) (*route, string) {
	_, pattern := h.mux.Handler(r)
	known, ok := h.routes[pattern]
	if !ok || !plainPath(r) {
		return nil, ""
	}
	return &known, known.path
}

// plainPath refuses what the mux would redirect: a claim that follows a redirect is a GET.
func plainPath(r *http.Request) bool {
	p := r.URL.EscapedPath()
	return p == path.Clean(p)
}

// admit checks everything about a request that comes before its route, and takes its body in.
func (h *handler) admit(w *recorder, r *http.Request, known *route, who *identity, held *body) *pawlclient.Problem {
	if known == nil {
		return h.nowhere(w, r)
	}
	if known.public {
		return h.limits.take(addressOf(r.RemoteAddr), time.Now())
	}
	found, err := h.identify(r)
	*who = found
	if err != nil {
		return outward(r.Context(), h.Logger, err).Problem
	}
	if p := known.forbidden(found); p != nil {
		return p
	}
	if !takesBody(r.Method) {
		r.Body = http.NoBody
		return nil
	}
	most := h.MaxBody
	if known.maxBody > 0 {
		most = known.maxBody
	}
	return readBody(w, r, held, most, !known.anyBody)
}

func takesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// nowhere is the problem of a request that has no route.
func (h *handler) nowhere(w http.ResponseWriter, r *http.Request) *pawlclient.Problem {
	if p := h.limits.take(addressOf(r.RemoteAddr), time.Now()); p != nil {
		return p
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := h.mux.Handler(&other); plainPath(r) && h.routes[pattern].path != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return newProblem(pawlclient.CodeNotFound, "there is no such path; /docs lists them, and parts of a path that hold a slash are escaped as %%2F")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	p := newProblem(pawlclient.CodeInvalid, "this path takes %s", strings.Join(allowed, " and "))
	p.Title, p.Status = "The method is not taken here", http.StatusMethodNotAllowed
	return p
}

// identify finds out who the request counts as, and counts it.
func (h *handler) identify(r *http.Request) (identity, error) {
	secret, p := bearer(r)
	if p != nil {
		return identity{}, h.counted(addressOf(r.RemoteAddr), p)
	}
	if secret == "" {
		return h.tokenless(r)
	}
	digest := secretDigest(secret)
	who, ok := h.access.recall(digest)
	if !ok {
		// A guess costs a query: those are counted by where they come from.
		if p := h.limits.take(addressOf(r.RemoteAddr), time.Now()); p != nil {
			return identity{}, p
		}
		var err error
		if who, err = h.access.look(r.Context(), digest); err != nil {
			return identity{}, err
		}
	}
	return who, h.counted("token "+who.TokenID, nil)
}

func (h *handler) tokenless(r *http.Request) (identity, error) {
	if err := h.counted(addressOf(r.RemoteAddr), nil); err != nil {
		return identity{}, err
	}
	none, err := h.access.tokenless(r.Context())
	switch {
	case err != nil:
		return identity{}, err
	case !none:
		return identity{}, newProblem(pawlclient.CodeUnauthenticated, "send a token: Authorization: Bearer TOKEN; make one with: pawl tokens create NAME --scope claim")
	}
	if p := local(r); p != nil {
		return identity{}, p
	}
	return identity{Actor: Actor{Name: "localhost"}, scopes: Scopes(), tokenless: true}, nil
}

// counted counts a request of the caller. If it is one too many that is the problem, else p, if there is one.
func (h *handler) counted(caller string, p *pawlclient.Problem) error {
	if many := h.limits.take(caller, time.Now()); many != nil {
		return many
	}
	if p == nil {
		return nil
	}
	return p
}
