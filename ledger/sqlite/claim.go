package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Claim implements [ledger.Claims].
func (l *Ledger) Claim(ctx context.Context, tx ledger.Tx, claims ...ledger.Claim) ([]ledger.ClaimResult, error) {
	if len(claims) > ledger.MaxClaims {
		return nil, &ledger.InvalidError{Field: "claims", Reason: fmt.Sprintf("are %d, more than %d; claim them in several transactions", len(claims), ledger.MaxClaims)}
	}
	prepared := make([]ledger.Prepared, len(claims))
	for i, c := range claims {
		var err error
		if prepared[i], err = ledger.Prepare(c); err != nil {
			return nil, atClaim(claims, i, err)
		}
	}
	if len(claims) == 0 {
		return nil, nil
	}
	results := make([]ledger.ClaimResult, len(claims))
	err := l.within(ctx, tx, func(s *session) error { return s.claimAll(ctx, prepared, results) })
	var conflict *ledger.KeyConflictError
	if err != nil && !errors.As(err, &conflict) {
		return nil, err
	}
	return results, err
}

// atClaim says which claim of a batch is at fault.
func atClaim(claims []ledger.Claim, i int, err error) error {
	if len(claims) == 1 {
		return fmt.Errorf("claim: %w", err)
	}
	return fmt.Errorf("claim %d of %d: %w", i+1, len(claims), err)
}

// claimAll inserts in order of lane, then key, and verifies leases last.
func (s *session) claimAll(ctx context.Context, claims []ledger.Prepared, results []ledger.ClaimResult) error {
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	order := make([]int, len(claims))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(claims[a].Lane, claims[b].Lane), strings.Compare(claims[a].EffectKey, claims[b].EffectKey),
			strings.Compare(claims[a].RunID, claims[b].RunID))
	})
	if err := s.unleased(ctx, claims, now); err != nil {
		return err
	}
	rows := map[string]ledger.ChannelRow{}
	for _, i := range order {
		p, err := s.admit(ctx, claims[i], rows, now)
		if err != nil {
			known, findErr := s.claimedBefore(ctx, claims[i], rows)
			if findErr != nil {
				return findErr
			}
			if known.EffectKey == "" {
				return fmt.Errorf("claim %s: %w", claims[i].EffectKey, err)
			}
			p, p.EffectKey, p.Approval = claims[i], known.EffectKey, nil // nothing is inserted
		}
		if results[i], err = s.claimOne(ctx, p, now); err != nil {
			return fmt.Errorf("claim %s: %w", p.EffectKey, err)
		}
	}
	verified := map[fence.Lease]bool{}
	for _, p := range claims {
		if p.Lease == nil || verified[*p.Lease] {
			continue
		}
		if err := s.verifyLease(ctx, *p.Lease, now); err != nil {
			return err
		}
		verified[*p.Lease] = true
	}
	return conflictIn(claims, results)
}

// conflictIn returns the first key conflict; all results are there to be looked at.
func conflictIn(claims []ledger.Prepared, results []ledger.ClaimResult) error {
	for i, r := range results {
		if r.Status == ledger.ClaimConflict {
			return &ledger.KeyConflictError{Key: r.Key, Have: r.Intent.PayloadDigest, Wanted: claims[i].PayloadDigest}
		}
	}
	return nil
}

// admit checks the claim against its channel as it stands in the ledger.
func (s *session) admit(ctx context.Context, p ledger.Prepared, rows map[string]ledger.ChannelRow, now time.Time) (ledger.Prepared, error) {
	row, ok := rows[p.Channel]
	if !ok {
		var err error
		if row, err = s.channelRow(ctx, p.Channel); err != nil {
			return p, err
		}
		rows[p.Channel] = row
	}
	return p.Admit(row, now, &s.l.schemas)
}

// claimedBefore returns the key of the intent that the claim made earlier, with the same payload; none if there is none.
func (s *session) claimedBefore(ctx context.Context, p ledger.Prepared, rows map[string]ledger.ChannelRow) (ledger.Key, error) {
	row, ok := rows[p.Channel]
	if !ok { // the channel is unknown
		return ledger.Key{}, nil
	}
	k := p.KeyOn(row)
	var digest string
	found, err := s.find(ctx, "SELECT payload_digest FROM effect_intents WHERE run_id = ? AND effect_key = ?", []any{k.RunID, k.EffectKey}, &digest)
	if err != nil {
		return ledger.Key{}, fmt.Errorf("look for intent %s: %w", k, err)
	}
	if !found || digest != p.PayloadDigest {
		return ledger.Key{}, nil
	}
	return k, nil
}

const insertIntent = `INSERT INTO effect_intents (run_id, effect_key, run_epoch, kind, channel, payload_digest, payload, lane, due_at,
	expires_at, approval, created_at, trace_parent) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
	WHERE NOT EXISTS (SELECT 1 FROM effect_intents WHERE run_id = ?1 AND effect_key = ?2)`

// claimOne inserts the intent, or reads the one that is there.
func (s *session) claimOne(ctx context.Context, p ledger.Prepared, now time.Time) (ledger.ClaimResult, error) {
	r := ledger.ClaimResult{Key: ledger.Key{RunID: p.RunID, EffectKey: p.EffectKey}}
	if p.Approval != nil {
		if err := s.checkApprovalUse(ctx, p); err != nil {
			return r, err
		}
	}
	inserted, err := s.insertIntent(ctx, p.Intent(now))
	if err != nil {
		return r, err
	}
	if r.Intent, err = s.intent(ctx, r.Key); err != nil {
		return r, err
	}
	switch {
	case inserted:
		r.Status = ledger.ClaimNew
		return r, nil
	case r.Intent.PayloadDigest != p.PayloadDigest:
		r.Status = ledger.ClaimConflict
		return r, nil
	}
	r.Status = ledger.ClaimDeduplicated
	return r, s.writeLog(ctx, now, []ledger.LogEntry{{Key: r.Key, Attempt: r.Intent.Attempts, Outcome: ledger.LogDeduped}})
}

// insertIntent inserts a new intent, unless the key is there. A leased run takes claims only of its holder.
func (s *session) insertIntent(ctx context.Context, i ledger.Intent) (bool, error) {
	var number int64
	leased, err := s.find(ctx, "SELECT lease_epoch FROM agent_runs WHERE id = ? AND lease_owner <> '' AND status IN ('leased', 'running')",
		[]any{i.RunID}, &number)
	if err != nil {
		return false, fmt.Errorf("look for the run's lease: %w", err)
	}
	if leased && i.RunNumber == 0 {
		return false, &ledger.InvalidError{Field: "lease", Reason: "the run is leased; claim under its lease"}
	}
	if leased && number != i.RunNumber {
		return false, fmt.Errorf("run %s is leased, under number %d, and the claim names %d: %w", i.RunID, number, i.RunNumber, fence.ErrLost)
	}
	approval, err := jsonText(i.Approval, i.Approval == nil)
	if err != nil {
		return false, err
	}
	var runEpoch any
	if i.RunNumber > 0 {
		runEpoch = i.RunNumber
	}
	payload := i.Payload
	if payload == nil {
		payload = []byte{}
	}
	n, err := s.exec(ctx, insertIntent, i.RunID, i.EffectKey, runEpoch, i.Kind, i.Channel, i.PayloadDigest, payload, nullText(i.Lane),
		timeText(i.DueAt), timeText(i.ExpiresAt), approval, timeText(i.CreatedAt), nullText(i.TraceParent))
	if err != nil {
		return false, fmt.Errorf("insert intent: %w", err)
	}
	return n == 1, nil
}

// checkApprovalUse refuses an approval that other intents have used up, in words of its own; the insert's trigger records the use.
func (s *session) checkApprovalUse(ctx context.Context, p ledger.Prepared) error {
	var used int
	err := s.row(ctx, "SELECT count(*) FROM approvals_used WHERE reference = ? AND NOT (run_id = ? AND effect_key = ?)",
		[]any{p.Approval.Reference, p.RunID, p.EffectKey}, &used)
	if err != nil {
		return fmt.Errorf("look for uses of the approval: %w", err)
	}
	if serves := max(1, p.Approval.Count); used >= serves {
		return &ledger.InvalidError{Field: "approval", Reason: fmt.Sprintf("has been used already: reference %q serves %d, and %d were claimed with it; ask for a new one",
			p.Approval.Reference, serves, used)}
	}
	return nil
}
