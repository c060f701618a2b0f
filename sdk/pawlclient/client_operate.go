package pawlclient

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Channels lists the channels in order of their names.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	var list struct {
		Channels []Channel `json:"channels"`
	}
	_, err := c.do(ctx, get("v1", "channels"), &list)
	return list.Channels, err
}

// Channel returns one channel.
func (c *Client) Channel(ctx context.Context, name string) (Channel, error) {
	var channel Channel
	_, err := c.do(ctx, get("v1", "channels", name), &channel)
	return channel, err
}

// byReason is the body of what an operator does to a channel.
type byReason struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Flag   string `json:"flag,omitempty"`
}

func (c *Client) change(ctx context.Context, name, what string, body byReason) (Channel, error) {
	var channel Channel
	_, err := c.do(ctx, order(body, "v1", "channels", name, what), &channel)
	return channel, err
}

// PauseChannel stops sending on a channel; claims are still taken.
func (c *Client) PauseChannel(ctx context.Context, name, by, reason string) (Channel, error) {
	return c.change(ctx, name, "pause", byReason{By: by, Reason: reason})
}

// ResumeChannel lets a channel send again.
func (c *Client) ResumeChannel(ctx context.Context, name, by string) (Channel, error) {
	return c.change(ctx, name, "resume", byReason{By: by})
}

// SetFlag says what a channel does with claims: on, off, paused, shadow.
func (c *Client) SetFlag(ctx context.Context, name, by, flag string) (Channel, error) {
	return c.change(ctx, name, "flag", byReason{By: by, Flag: flag})
}

// Stats counts.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	_, err := c.do(ctx, get("v1", "stats"), &s)
	return s, err
}

// Engines lists the engines that the ledger has seen.
func (c *Client) Engines(ctx context.Context) ([]Engine, error) {
	var list struct {
		Engines []Engine `json:"engines"`
	}
	_, err := c.do(ctx, get("v1", "engines"), &list)
	return list.Engines, err
}

// Epochs lists the lives of the ledger, oldest first.
func (c *Client) Epochs(ctx context.Context) ([]Epoch, error) {
	var list struct {
		Epochs []Epoch `json:"epochs"`
	}
	_, err := c.do(ctx, get("v1", "epochs"), &list)
	return list.Epochs, err
}

// longWork is the time that the server takes for what it does to every intent, beside that of a request.
const longWork = 10 * time.Minute

// OpenEpoch begins a new life of the ledger. It has ten minutes more than Options.Timeout, as it takes up every intent that has not ended.
func (c *Client) OpenEpoch(ctx context.Context, o OpenEpoch) (Epoch, error) {
	r := order(o, "v1", "epochs")
	r.longer = longWork
	var e Epoch
	_, err := c.do(ctx, r, &e)
	return e, err
}

// Prune removes payload, tokens and log of what ended long ago. It has ten minutes more than Options.Timeout.
func (c *Client) Prune(ctx context.Context, p Prune) (Pruned, error) {
	r := order(p, "v1", "prune")
	r.repeatable, r.longer = p.DryRun, longWork
	var done Pruned
	_, err := c.do(ctx, r, &done)
	return done, err
}

// APITokens lists the API's tokens, without their secrets.
func (c *Client) APITokens(ctx context.Context) ([]APIToken, error) {
	var list struct {
		Tokens []APIToken `json:"tokens"`
	}
	_, err := c.do(ctx, get("v1", "tokens"), &list)
	return list.Tokens, err
}

// CreateAPIToken makes a token. Its secret is in the answer, and never shown again.
func (c *Client) CreateAPIToken(ctx context.Context, n NewAPIToken) (IssuedAPIToken, error) {
	var t IssuedAPIToken
	_, err := c.do(ctx, order(n, "v1", "tokens"), &t)
	return t, err
}

// RevokeAPIToken ends a token.
func (c *Client) RevokeAPIToken(ctx context.Context, id, by string) (APIToken, error) {
	r := call{method: http.MethodDelete, path: []string{"v1", "tokens", id}, query: url.Values{}}
	set(r.query, "by", by)
	var t APIToken
	_, err := c.do(ctx, r, &t)
	return t, err
}

// Audit lists the audit trail, newest first.
func (c *Client) Audit(ctx context.Context, limit int, after string) (AuditPage, error) {
	r := get("v1", "audit")
	r.query = url.Values{}
	page(r.query, limit, after)
	var p AuditPage
	_, err := c.do(ctx, r, &p)
	return p, err
}
