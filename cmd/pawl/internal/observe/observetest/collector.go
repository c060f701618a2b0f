package observetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as a collector got it.
type Span struct {
	Service, Name       string
	Trace, ID, Parent   string // hex; Parent is empty for the first of a trace
	Attributes          map[string]string
	Events              []string
	Status              string
	AuthorizationHeader string // of the request that brought it
}

// Collector is an OTLP/HTTP collector in this process.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
	raw   []byte
	got   chan struct{}
}

// NewCollector starts one, which ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{got: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
		if err == nil {
			err = c.take(body, r.Header.Get("Authorization"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) take(body []byte, authorization string) error {
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body...)
	for _, of := range request.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, in := range of.GetScopeSpans() {
			for _, s := range in.GetSpans() {
				span := Span{
					Service: service, Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()), Attributes: map[string]string{}, Status: s.GetStatus().GetMessage(),
					AuthorizationHeader: authorization,
				}
				for _, a := range s.GetAttributes() {
					span.Attributes[a.GetKey()] = a.GetValue().GetStringValue()
				}
				for _, e := range s.GetEvents() {
					span.Events = append(span.Events, e.GetName())
				}
				c.spans = append(c.spans, span)
			}
		}
	}
	select {
	case c.got <- struct{}{}:
	default:
	}
	return nil
}

// Spans are those that came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Raw is everything that came so far, as bytes.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

// Await waits until enough says so of what came, and fails the test if it does not for too long.
func (c *Collector) Await(t testing.TB, what string, enough func([]Span) bool) []Span {
	t.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	for {
		spans := c.Spans()
		if enough(spans) {
			return spans
		}
		select {
		case <-c.got:
		case <-end.C:
			t.Fatalf("%s: not among %+v", what, spans)
		}
	}
}
