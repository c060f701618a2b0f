package pawlclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// UnclearError says that a request which must not be repeated ended without an answer: it may have been done. Look at what it was
// about before doing it again.
type UnclearError struct {
	What string // such as "POST /v1/channels/mail%2Fshop/pause"
	Err  error
}

func (e *UnclearError) Error() string {
	return e.What + ": may have been done: look before you do it again: " + e.Err.Error()
}
func (e *UnclearError) Unwrap() error { return e.Err }

// call is one request.
type call struct {
	method string
	path   []string // parts after the base, not escaped
	query  url.Values
	body   any
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
	// longer is added to the time of a try: a long poll.
	longer time.Duration
}

func (c call) route() string {
	var b strings.Builder
	for _, part := range c.path {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}

func get(path ...string) call { return call{method: http.MethodGet, path: path, repeatable: true} }

// ask is a POST that may be repeated; order is one that must not be.
func ask(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body, repeatable: true}
}
func order(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body}
}

// try is what came of one try.
type try struct {
	status int
	err    error
	// undone says that nothing was done by it.
	undone bool
	// passing says that another try may go better.
	passing bool
	asked   time.Duration // how long the server asks to wait
}

// do makes the call, again where that is safe, and decodes the answer into out unless it is nil. It returns the status.
func (c *Client) do(ctx context.Context, r call, out any) (status int, err error) {
	for _, part := range r.path {
		if part == "" || part == "." || part == ".." {
			return 0, fmt.Errorf("%s %s: a part of the path is %q; name what you mean", r.method, r.route(), part)
		}
	}
	var body []byte
	if r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return 0, fmt.Errorf("%s %s: %w", r.method, r.route(), err)
		}
	}
	for n := 1; ; n++ {
		t := c.once(ctx, r, body, out)
		if t.err == nil {
			return t.status, nil
		}
		again := t.passing && (r.repeatable || t.undone)
		if again && n < c.retry.Tries && ctx.Err() == nil && c.retry.pause(ctx, n, t.asked) {
			continue
		}
		if !r.repeatable && !t.undone {
			return t.status, &UnclearError{r.method + " " + r.route(), t.err}
		}
		return t.status, t.err
	}
}

// once makes one try.
func (c *Client) once(ctx context.Context, r call, body []byte, out any) try {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+r.longer)
	defer cancel()
	req, err := c.request(ctx, r, body)
	if err != nil {
		return try{err: err, undone: true}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return try{err: c.failed(r, err), undone: neverSent(err), passing: true}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
	switch {
	case err != nil:
		return try{status: resp.StatusCode, err: c.failed(r, fmt.Errorf("the answer broke off: %w", err)), passing: true}
	case int64(len(raw)) > c.most:
		return try{status: resp.StatusCode, err: c.failed(r, fmt.Errorf("the answer has more than %d bytes; raise MaxResponse, or ask for a smaller page", c.most))}
	case resp.StatusCode/100 == 2:
		return c.read(r, resp.StatusCode, raw, out)
	case resp.StatusCode/100 == 3:
		return try{status: resp.StatusCode, undone: true, err: c.failed(r, fmt.Errorf("the server points to %s, which is not followed; set the URL to where the API is", pointsTo(resp)))}
	}
	return c.refused(r, resp, raw)
}

func (c *Client) request(ctx context.Context, r call, body []byte) (*http.Request, error) {
	to := c.base.String() + r.route()
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	var from io.Reader
	if body != nil {
		from = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, to, from)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// read decodes the answer to what was done.
func (c *Client) read(r call, status int, raw []byte, out any) try {
	if out == nil {
		return try{status: status}
	}
	err := json.Unmarshal(raw, out)
	if err == nil {
		return try{status: status}
	}
	// Nothing more came although more was meant to: a connection that was cut where its end marks the end of the answer.
	var syntax *json.SyntaxError
	cut := errors.As(err, &syntax) && syntax.Offset >= int64(len(raw))
	if cut {
		err = errors.New("the answer broke off")
	} else {
		err = errors.New("the answer is not the API's JSON; is this the URL of pawl serve?")
	}
	return try{status: status, err: c.failed(r, err), passing: cut}
}

// failed says which request failed. The cause is never allowed to hold the token.
func (c *Client) failed(r call, err error) error {
	var outer *url.Error // repeats method and URL
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if c.token != "" && strings.Contains(err.Error(), c.token) {
		err = errors.New(strings.ReplaceAll(err.Error(), c.token, hiddenToken))
	}
	return &UnreachableError{fmt.Sprintf("%s %s of %s", r.method, r.route(), c.base.Host), err}
}

const hiddenToken = "(hidden)"

// UnreachableError says that a request got no answer that could be read. The cause is kept for errors.Is, such as
// context.DeadlineExceeded.
type UnreachableError struct {
	What string // such as "GET /v1/stats of pawl.example.org"
	Err  error
}

func (e *UnreachableError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// neverSent reports that no connection was made, so that nothing can have arrived.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// pointsTo names the host of a redirect. The rest may hold anything.
func pointsTo(resp *http.Response) string {
	if to, err := resp.Location(); err == nil && to.Host != "" {
		return to.Scheme + "://" + to.Host
	}
	return "somewhere else"
}
