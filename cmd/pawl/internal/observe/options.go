package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"path"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// DefaultService is the name of the service in traces.
const DefaultService = "pawl"

// Options say what to make visible, and where. All are optional.
type Options struct {
	Service  string // name in traces; default DefaultService
	Version  string
	Instance string // the engine's, so that spans of two replicas can be told apart
	Logger   *slog.Logger
	Tracing  Tracing
}

// Tracing says where spans go. The zero value sends none.
type Tracing struct {
	// Endpoint is the URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318; /v1/traces is added to it.
	Endpoint string
	// Ratio of the traces that begin here, from 0 to 1. A caller's own decision, and an effect's, counts before it.
	Ratio float64
	// Headers are sent along, such as an authorization. They are in no log and no error.
	Headers map[string]string
}

// On reports whether spans are sent.
func (t Tracing) On() bool { return t.Endpoint != "" }

// String leaves the headers out.
func (t Tracing) String() string { return fmt.Sprintf("tracing to %q, ratio %g", t.Endpoint, t.Ratio) }

// GoString leaves the headers out.
func (t Tracing) GoString() string { return t.String() }

const tracesPath = "/v1/traces"

// target is the URL that spans are posted to.
func (t Tracing) target() (string, error) {
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("tracing: endpoint: is no URL of a collector; use http(s)://host:port, such as http://127.0.0.1:4318")
	case u.User != nil:
		return "", errors.New("tracing: endpoint: holds a user or a password; put them into headers")
	}
	if !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = path.Join("/", u.Path, tracesPath)
	}
	return u.String(), nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Service == "" {
		o.Service = DefaultService
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if r := o.Tracing.Ratio; r < 0 || r > 1 || math.IsNaN(r) {
		return o, fmt.Errorf("tracing: ratio: must be from 0 to 1, is %g", r)
	}
	if o.Tracing.On() {
		if _, err := o.Tracing.target(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// resource names this process. Nothing is taken from the environment, which may hold what nobody meant to send.
func (o Options) resource() *resource.Resource {
	all := []attribute.KeyValue{semconv.ServiceName(o.Service)}
	if o.Version != "" {
		all = append(all, semconv.ServiceVersion(o.Version))
	}
	if o.Instance != "" {
		all = append(all, semconv.ServiceInstanceID(o.Instance))
	}
	return resource.NewSchemaless(all...)
}
