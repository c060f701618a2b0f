package pawlclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Claim claims one effect. Repeating it is safe, and the client does: [ClaimDeduplicated] is a success. Another payload under the
// same key is a [*Problem] with [CodeKeyConflict], which holds the intent that has the key.
func (c *Client) Claim(ctx context.Context, claim Claim) (ClaimResult, error) {
	var r ClaimResult
	_, err := c.do(ctx, ask(claim, "v1", "intents"), &r)
	return r, err
}

// ClaimAll claims many effects: all of them are taken, or none.
func (c *Client) ClaimAll(ctx context.Context, claims []Claim) (ClaimBatch, error) {
	body := struct {
		Claims []Claim `json:"claims"`
	}{claims}
	var b ClaimBatch
	_, err := c.do(ctx, ask(body, "v1", "intents", "batch"), &b)
	return b, err
}

// Intent returns an intent with its attempts, findings and receipts. The payload needs the scope operate.
func (c *Client) Intent(ctx context.Context, k Key, withPayload bool) (Detail, error) {
	r := get("v1", "intents", k.RunID, k.EffectKey)
	if withPayload {
		r.query = url.Values{"payload": {"true"}}
	}
	var d Detail
	_, err := c.do(ctx, r, &d)
	return d, err
}

// Intents lists intents, newest claim first.
func (c *Client) Intents(ctx context.Context, f IntentFilter) (IntentPage, error) {
	q := url.Values{}
	set(q, "run_id", f.RunID)
	set(q, "channel", f.Channel)
	set(q, "state", f.State)
	page(q, f.Limit, f.After)
	if f.Held {
		q.Set("held", "true")
	}
	r := get("v1", "intents")
	r.query = q
	var p IntentPage
	_, err := c.do(ctx, r, &p)
	return p, err
}

// set leaves out what is empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func page(q url.Values, limit int, after string) {
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	set(q, "after", after)
}

// longestPoll is how long one request of Wait stays open: short enough for whatever stands between.
const longestPoll = 30 * time.Second

// Wait asks again and again until the intent has ended or is held. After at most timeout it returns what was known last, without
// an error: see [Intent.Ended]. A service that is away meanwhile is waited for; the error is returned if nothing was ever known.
func (c *Client) Wait(ctx context.Context, k Key, timeout time.Duration) (Intent, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end, _ := limited.Deadline()
	var last Intent
	var failed error
	for first := true; ; first = false {
		left := time.Until(end)
		if !first && left <= 0 {
			break
		}
		poll := max(0, min(left, longestPoll)).Round(time.Millisecond)
		r := get("v1", "intents", k.RunID, k.EffectKey, "wait")
		r.query, r.longer = url.Values{"timeout": {poll.String()}}, poll
		var i Intent
		_, err := c.do(ctx, r, &i)
		var p *Problem
		switch {
		case err == nil && i.Ended():
			return i, nil
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			last, failed = i, nil
			// A server that answers at once must not be asked without a pause.
			if early := c.retry.FirstDelay - (left - time.Until(end)); early > 0 {
				pauseUntil(limited, early)
			}
		case errors.As(err, &p) && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests:
			return last, err
		default:
			failed = err
			pauseUntil(limited, c.retry.delay(c.retry.Tries))
		}
	}
	if last.RunID == "" {
		return last, failed
	}
	return last, nil
}

func pauseUntil(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Cancel asks for the end of an intent.
func (c *Client) Cancel(ctx context.Context, k Key, cancel Cancel) (Intent, error) {
	var i Intent
	_, err := c.do(ctx, order(cancel, "v1", "intents", k.RunID, k.EffectKey, "cancel"), &i)
	return i, err
}

// Resolve decides, as a person, what became of an intent.
func (c *Client) Resolve(ctx context.Context, k Key, r Resolve) (Intent, error) {
	var i Intent
	_, err := c.do(ctx, order(r, "v1", "intents", k.RunID, k.EffectKey, "resolve"), &i)
	return i, err
}

// Redrive claims an abandoned intent again under a new key.
func (c *Client) Redrive(ctx context.Context, k Key, r Redrive) (ClaimResult, error) {
	var result ClaimResult
	_, err := c.do(ctx, order(r, "v1", "intents", k.RunID, k.EffectKey, "redrive"), &result)
	return result, err
}

// Receipts lists issued receipts in order of issue.
func (c *Client) Receipts(ctx context.Context, f ReceiptFilter) (ReceiptPage, error) {
	r := get("v1", "receipts")
	r.query = url.Values{}
	set(r.query, "run_id", f.RunID)
	page(r.query, f.Limit, f.After)
	var p ReceiptPage
	_, err := c.do(ctx, r, &p)
	return p, err
}

// Receipt returns one receipt.
func (c *Client) Receipt(ctx context.Context, id string) (Receipt, error) {
	var receipt Receipt
	_, err := c.do(ctx, get("v1", "receipts", id), &receipt)
	return receipt, err
}

// VerifyReceipt lets the server check a receipt. Whoever must not trust the server verifies with the public key alone.
func (c *Client) VerifyReceipt(ctx context.Context, envelope json.RawMessage) (Verdict, error) {
	var v Verdict
	_, err := c.do(ctx, ask(envelope, "v1", "receipts", "verify"), &v)
	return v, err
}

// ReceiptKey returns the public key of the server's receipts.
func (c *Client) ReceiptKey(ctx context.Context) (PublicKey, error) {
	var k PublicKey
	_, err := c.do(ctx, get("v1", "receipts", "key"), &k)
	return k, err
}
