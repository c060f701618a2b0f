package pawlclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
)

// CreateRun makes a run. Where neither id nor idempotency key is given, the client makes the id, so that repeating it makes no
// second run. Created is false if the run was there, which a try before may have done.
func (c *Client) CreateRun(ctx context.Context, r NewRun) (run Run, created bool, err error) {
	if r.ID == "" && r.IdempotencyKey == "" {
		r.ID = randomUUID()
	}
	status, err := c.do(ctx, ask(r, "v1", "runs"), &run)
	return run, status == http.StatusCreated, err
}

func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	var r Run
	_, err := c.do(ctx, get("v1", "runs", id), &r)
	return r, err
}

// CancelRun ends a run and cancels its unsent intents.
func (c *Client) CancelRun(ctx context.Context, id string, cancel Cancel) (Run, error) {
	var r Run
	_, err := c.do(ctx, order(cancel, "v1", "runs", id, "cancel"), &r)
	return r, err
}

// AcquireLease takes a run's lease. It is not repeated after an unclear end: the lease may be held by then, until it expires.
func (c *Client) AcquireLease(ctx context.Context, runID string, a AcquireLease) (Lease, error) {
	var l Lease
	_, err := c.do(ctx, order(a, "v1", "runs", runID, "lease"), &l)
	return l, err
}

// RenewLease moves the lease's expiry.
func (c *Client) RenewLease(ctx context.Context, r RenewLease) (Lease, error) {
	var l Lease
	_, err := c.do(ctx, ask(r, "v1", "runs", r.Lease.RunID, "lease", "renew"), &l)
	return l, err
}

// VerifyLease returns nil while the lease is held.
func (c *Client) VerifyLease(ctx context.Context, l Lease) error {
	_, err := c.do(ctx, ask(l, "v1", "runs", l.RunID, "lease", "verify"), nil)
	return err
}

// ReleaseLease ends a lease.
func (c *Client) ReleaseLease(ctx context.Context, r ReleaseLease) error {
	_, err := c.do(ctx, order(r, "v1", "runs", r.Lease.RunID, "lease", "release"), nil)
	return err
}
