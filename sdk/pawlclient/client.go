package pawlclient

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Defaults of [Options].
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxResponse = 64 << 20 // bytes
	DefaultUserAgent   = "pawlclient"
)

// maxTokenFile bounds a token file, in bytes.
const maxTokenFile = 4096

// Options say which service to call, and as whom.
type Options struct {
	// URL is where the service is, such as https://pawl.example.org or http://127.0.0.1:7240. A path is kept: what the client
	// calls is URL/v1/….
	URL string
	// Token is the bearer token; TokenFile is a file that holds it, read by [New]. At most one of them. Without both, requests
	// carry none.
	Token, TokenFile string
	// AllowPlainText lets the token go over http:// to a host that is not this machine, where others on the way can read it.
	AllowPlainText bool
	// HTTPClient makes the requests; nil: one of its own. Its CheckRedirect is not used: the client follows no redirect.
	HTTPClient *http.Client
	// UserAgent is sent with every request; empty: [DefaultUserAgent].
	UserAgent string
	// Timeout bounds each try of a request; 0: [DefaultTimeout]. A long poll gets the time of the poll in addition.
	Timeout time.Duration
	// MaxResponse bounds what is read of an answer, in bytes; 0: [DefaultMaxResponse].
	MaxResponse int64
	Retry       Retry
}

// String leaves out the token.
func (o Options) String() string { return "pawlclient.Options of " + o.URL }

// GoString leaves out the token.
func (o Options) GoString() string { return o.String() }

// LogValue leaves out the token.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Client calls the HTTP API of a running pawl serve. Make one with [New]. It is safe for concurrent use.
//
// What is safe to repeat is repeated when it may not have arrived: reads, claims (they are deduplicated), new runs, and the
// renewal of a lease. Everything is repeated that certainly was not done: a connection that could not be opened, and 429. Anything
// else that ends without an answer is an [*UnclearError].
//
// A claim that was repeated after its first try took effect comes back as [ClaimDeduplicated]: that is a success, the same as
// [ClaimNew].
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
	agent string

	timeout time.Duration
	most    int64
	retry   Retry
}

var _ API = (*Client)(nil)

// New checks the options and returns a client. It makes no request. Errors name the option.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, err
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	if token != "" && base.Scheme == "http" && !o.AllowPlainText && !loopback(base.Hostname()) {
		return nil, fmt.Errorf("option URL: a token would travel readable to %s; use https://, or set AllowPlainText", base.Host)
	}
	c := &Client{base: base, token: token, agent: o.UserAgent, timeout: o.Timeout, most: o.MaxResponse, http: &http.Client{}}
	switch {
	case c.timeout < 0:
		return nil, fmt.Errorf("option Timeout: must not be negative, is %s", c.timeout)
	case c.most < 0:
		return nil, fmt.Errorf("option MaxResponse: must not be negative, is %d", c.most)
	case strings.ContainsAny(c.agent, "\r\n"):
		return nil, errors.New("option UserAgent: must be one line")
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.most == 0 {
		c.most = DefaultMaxResponse
	}
	if c.agent == "" {
		c.agent = DefaultUserAgent
	}
	if c.retry, err = o.Retry.withDefaults(); err != nil {
		return nil, err
	}
	if o.HTTPClient != nil {
		own := *o.HTTPClient
		c.http = &own
	}
	// A redirect could carry the token to another host, and a claim's POST would become a GET.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func parseBase(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("option URL: is missing; give the address of pawl serve, such as https://pawl.example.org")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // the cause would quote it, with what may be a password
		return nil, errors.New("option URL: cannot be read as a URL")
	case u.User != nil:
		return nil, errors.New("option URL: holds a user or a password; give the token as Token or TokenFile")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("option URL: must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("option URL: names no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("option URL: must not have a query or a fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

func (o Options) token() (string, error) {
	token, name := o.Token, "Token"
	if o.TokenFile != "" {
		if o.Token != "" {
			return "", errors.New("option TokenFile: there is a Token, too; keep one")
		}
		name = "TokenFile"
		raw, err := readBounded(o.TokenFile, maxTokenFile)
		if err != nil {
			return "", fmt.Errorf("option TokenFile: %w", err)
		}
		if token = strings.TrimSpace(string(raw)); token == "" {
			return "", fmt.Errorf("option TokenFile: %s is empty", o.TokenFile)
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("option %s: holds a character that no token has; it must be one word", name)
	}
	return token, nil
}

// readBounded reads a file that may be a pipe or a device: what it says of its size does not count.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, err
}

// loopback reports whether a host is this machine by its spelling alone.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// String names the service and leaves out the token.
func (c *Client) String() string { return "pawlclient of " + c.base.String() }

// GoString leaves out the token.
func (c *Client) GoString() string { return c.String() }
