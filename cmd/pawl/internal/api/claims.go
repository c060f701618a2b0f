package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// MaxBatch bounds a batch of claims.
const MaxBatch = 1000

// Claim claims one effect.
func (s *Service) Claim(ctx context.Context, c pawlclient.Claim) (pawlclient.ClaimResult, error) {
	results, err := s.claim(ctx, []pawlclient.Claim{c}, func(int) string { return "body" })
	if err != nil {
		return pawlclient.ClaimResult{}, err
	}
	return results[0], nil
}

// ClaimAll claims many: all are taken, or none.
func (s *Service) ClaimAll(ctx context.Context, claims []pawlclient.Claim) (pawlclient.ClaimBatch, error) {
	switch {
	case len(claims) == 0:
		return pawlclient.ClaimBatch{}, invalid("body.claims", "is empty; name at least one effect")
	case len(claims) > MaxBatch:
		return pawlclient.ClaimBatch{}, invalid("body.claims", "are %d, more than %d; claim them in several requests", len(claims), MaxBatch)
	}
	results, err := s.claim(ctx, claims, func(n int) string { return fmt.Sprintf("body.claims[%d]", n) })
	return pawlclient.ClaimBatch{Results: results}, err
}

// claim takes all claims or none. at names the place of each in the request.
func (s *Service) claim(ctx context.Context, asked []pawlclient.Claim, at func(n int) string) ([]pawlclient.ClaimResult, error) {
	claims := make([]ledger.Claim, len(asked))
	for n, a := range asked {
		c, err := claimOf(a, at(n))
		if err != nil {
			return nil, err
		}
		claims[n] = c
	}
	results, err := s.take(ctx, claims...)
	if err != nil {
		return nil, s.claimProblem(ctx, err, claims, results, at)
	}
	views := make([]pawlclient.ClaimResult, len(results))
	woken := map[string]bool{}
	for n, r := range results {
		views[n] = pawlclient.ClaimResult{Status: string(r.Status), Intent: ViewIntent(r.Intent)}
		if name := r.Intent.Channel; r.Status == ledger.ClaimNew && !woken[name] {
			woken[name] = true
			s.wake(name)
		}
	}
	return views, nil
}

// claimOf checks what can be checked of a claim alone.
func claimOf(a pawlclient.Claim, at string) (ledger.Claim, error) {
	c := ledger.Claim{
		RunID: strings.ToLower(a.RunID), EffectKey: a.EffectKey, Channel: a.Channel, Payload: a.Payload, Lane: a.Lane,
		DueAt: a.DueAt, ExpiresAt: a.ExpiresAt, Approval: (*ledger.Approval)(a.Approval),
	}
	if a.Lease != nil {
		lease, err := leaseOf(*a.Lease, at+".lease")
		if err != nil {
			return c, err
		}
		c.Lease = &lease
	}
	if a.Approval != nil {
		if err := checkApproval(*a.Approval, at+".approval"); err != nil {
			return c, err
		}
	}
	for _, when := range []struct {
		name string
		time time.Time
	}{{"due_at", a.DueAt}, {"expires_at", a.ExpiresAt}} {
		if err := checkTime(at+"."+when.name, when.time); err != nil {
			return c, err
		}
	}
	switch {
	case len(a.Payload) == 0:
		return c, invalid(at+".payload", "is missing: give what the channel sends from, as JSON")
	case a.Channel == ledger.ChannelLocal:
		return c, invalid(at+".channel", "local is built in for effects of Go programs; name a configured channel")
	}
	if c.EffectKey == "" {
		key, err := PayloadKey(c.Channel, c.Payload)
		if err != nil {
			return c, problem(err, at)
		}
		c.EffectKey = key
	}
	if _, err := ledger.Prepare(c); err != nil {
		return c, problem(err, at)
	}
	return c, nil
}

func checkApproval(a pawlclient.Approval, at string) error {
	for _, part := range []struct{ name, value string }{{"by", a.By}, {"reference", a.Reference}, {"digest", a.Digest}} {
		if err := checkText(at+"."+part.name, part.value, maxKey); err != nil {
			return err
		}
	}
	return checkTime(at+".until", a.Until)
}

// checkTime refuses times that a database cannot keep.
func checkTime(at string, t time.Time) error {
	if !ledger.Keepable(t) {
		return invalid(at, "is not between the years 1970 and 9999, in UTC")
	}
	return nil
}

// claimProblem says which claim of several is meant, where that can be told.
func (s *Service) claimProblem(ctx context.Context, err error, claims []ledger.Claim, results []ledger.ClaimResult, at func(n int) string) error {
	var conflict *ledger.KeyConflictError
	var wrong *ledger.InvalidError
	switch {
	case errors.As(err, &conflict):
		p := newProblem(pawlclient.CodeKeyConflict, "%s", conflict)
		p.Cause = err
		for n, r := range results {
			if r.Status != ledger.ClaimConflict {
				continue
			}
			p.Errors = append(p.Errors, pawlclient.FieldError{Location: at(n) + ".effect_key", Message: "is claimed already with another payload"})
			if p.Intent == nil {
				view := ViewIntent(r.Intent)
				p.Intent = &view
			}
		}
		return p
	case errors.Is(err, ledger.ErrUnknownChannel):
		p := invalid(s.unknownChannel(ctx, claims, at), "%s", err)
		p.Cause = err
		return p
	case errors.As(err, &wrong):
		return problem(err, s.wrongClaim(ctx, wrong, claims, at))
	}
	return problem(err, "body")
}

func (s *Service) unknownChannel(ctx context.Context, claims []ledger.Claim, at func(n int) string) string {
	for n, c := range claims {
		if _, err := s.ledger.ChannelRow(ctx, c.Channel); errors.Is(err, ledger.ErrUnknownChannel) {
			return at(n) + ".channel"
		}
	}
	return at(0) + ".channel"
}

// wrongClaim looks for the claim that its channel refuses for this reason. Only the answer to a mistake pays for it.
func (s *Service) wrongClaim(ctx context.Context, wrong *ledger.InvalidError, claims []ledger.Claim, at func(n int) string) string {
	if len(claims) == 1 {
		return at(0)
	}
	rows := map[string]ledger.ChannelRow{}
	now, err := s.ledger.Now(ctx)
	for n, c := range claims {
		row, known := rows[c.Channel]
		if !known && err == nil {
			if row, err = s.ledger.ChannelRow(ctx, c.Channel); err == nil {
				rows[c.Channel] = row
			}
		}
		if err != nil {
			break
		}
		var same *ledger.InvalidError
		p, bad := ledger.Prepare(c)
		if bad == nil {
			_, bad = p.Admit(row, now, &s.schemas)
		}
		if errors.As(bad, &same) && *same == *wrong {
			return at(n)
		}
	}
	return "body.claims"
}

// leaseOf reads a lease.
func leaseOf(l pawlclient.Lease, at string) (fence.Lease, error) {
	run, err := runID(at+".run_id", l.RunID)
	if err != nil {
		return fence.Lease{}, err
	}
	if err := needText(at+".owner", l.Owner, maxBy, "name the worker that holds it"); err != nil {
		return fence.Lease{}, err
	}
	return fence.Lease{RunID: run, Fence: fence.Fence{Epoch: l.Epoch, Number: l.Number, Owner: l.Owner}, ExpiresAt: l.ExpiresAt}, nil
}
