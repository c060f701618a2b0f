package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// claimChunk bounds the rows of one insert, so that a large batch stays within the statement time-out on a busy server.
const claimChunk = 500

// Claim inserts intents in the caller's transaction. A statement takes up to 500 claims. [ledger.Ledger].
func (l *Ledger) Claim(ctx context.Context, tx ledger.Tx, claims ...ledger.Claim) ([]ledger.ClaimResult, error) {
	e, err := executorOf(tx)
	if err != nil {
		return nil, err
	}
	if len(claims) == 0 {
		return nil, nil
	}
	if len(claims) > ledger.MaxClaims {
		return nil, &ledger.InvalidError{Field: "claims", Reason: fmt.Sprintf("%d are more than %d; claim them in several calls", len(claims), ledger.MaxClaims)}
	}
	c := &claiming{l: l, e: e, results: make([]ledger.ClaimResult, len(claims)), places: map[ledger.Key][]int{}, before: map[ledger.Key]bool{}}
	for n, claim := range claims {
		p, err := ledger.Prepare(claim)
		if err != nil {
			return nil, named(err, n, len(claims))
		}
		c.prepared = append(c.prepared, p)
	}
	err = c.run(ctx)
	var conflict *ledger.KeyConflictError
	if errors.As(err, &conflict) {
		return c.results, err
	}
	if err != nil {
		return nil, callerError(err, !c.unleased(err))
	}
	return c.results, nil
}

// unleased reports whether the run that the database refused, because somebody holds it, was claimed without a lease. It names the run.
func (c *claiming) unleased(err error) bool {
	e, ok := pgError(err)
	return ok && slices.ContainsFunc(c.prepared, func(p ledger.Prepared) bool { return p.Lease == nil && strings.Contains(e.Message, p.RunID) })
}

// named says which of several claims is wrong.
func named(err error, n, of int) error {
	if of == 1 {
		return err
	}
	return fmt.Errorf("claim %d of %d: %w", n+1, of, err)
}

// claiming is one call of Claim.
type claiming struct {
	l        *Ledger
	e        executor
	now      time.Time
	prepared []ledger.Prepared
	results  []ledger.ClaimResult
	places   map[ledger.Key][]int // where each key was asked for
	fresh    map[ledger.Key]bool
	before   map[ledger.Key]bool // refused now, but claimed earlier
	seq      int64               // of the queue row of the last claim that was inserted
}

func (c *claiming) run(ctx context.Context) error {
	if err := c.admit(ctx); err != nil {
		return err
	}
	if err := c.l.verifyUnleased(ctx, c.e, c.prepared); err != nil {
		return err
	}
	save := false
	for _, p := range c.prepared {
		save = save || p.Approval != nil
	}
	if save { // an approval that is used up must leave nothing behind
		if _, err := c.e.exec(ctx, "SAVEPOINT pawl_claim"); err != nil {
			return err
		}
	}
	err := c.insert(ctx)
	if err == nil {
		err = c.useApprovals(ctx)
	}
	var wrong *ledger.InvalidError
	if save && errors.As(err, &wrong) && sqlState(err) == "" {
		if _, back := c.e.exec(ctx, "ROLLBACK TO SAVEPOINT pawl_claim"); back != nil {
			return errors.Join(err, back)
		}
	}
	if err != nil {
		return err
	}
	conflict := c.compare(ctx)
	if conflict != nil {
		return conflict
	}
	return c.verifyLeases(ctx)
}

// admit checks every claim against its channel.
func (c *claiming) admit(ctx context.Context) error {
	names, seen := []string{}, map[string]bool{}
	for _, p := range c.prepared {
		if !seen[p.Channel] {
			seen[p.Channel] = true
			names = append(names, p.Channel)
		}
	}
	r, err := c.e.query(ctx, c.l.sql.channelsOf, jsonText(names))
	if err != nil {
		return err
	}
	channels, now, err := readChannels(r)
	r.close()
	if err != nil {
		return err
	}
	c.now = now
	for n, p := range c.prepared {
		row, known := channels[p.Channel]
		if !known {
			return named(c.unknown(ctx, p.Channel), n, len(c.prepared))
		}
		key := p.KeyOn(row)
		admitted, err := p.Admit(row, now, &c.l.schemas)
		if err != nil {
			before, findErr := c.claimedBefore(ctx, key, p.PayloadDigest)
			if findErr != nil {
				return findErr
			}
			if !before {
				return named(err, n, len(c.prepared))
			}
			c.before[key] = true
			admitted = p
			admitted.EffectKey = key.EffectKey
		}
		c.prepared[n] = admitted
		c.places[key] = append(c.places[key], n)
	}
	return nil
}

// claimedBefore reports whether the claim was taken earlier, with the same payload.
func (c *claiming) claimedBefore(ctx context.Context, k ledger.Key, digest string) (found bool, err error) {
	err = each(ctx, c.e, func(rows) error {
		found = true
		return nil
	}, fmt.Sprintf("SELECT 1 FROM %s WHERE run_id = $1::uuid AND effect_key = $2 AND payload_digest = $3", c.l.table("effect_intents")), k.RunID, k.EffectKey, digest)
	return found, err
}

// unknown names the channels that are known.
func (c *claiming) unknown(ctx context.Context, name string) error {
	var known []string
	err := each(ctx, c.e, func(r rows) error {
		var one string
		err := r.Scan(&one)
		known = append(known, one)
		return err
	}, fmt.Sprintf("SELECT channel FROM %s ORDER BY channel LIMIT %d", c.l.table("channels"), maxNamed))
	if err != nil {
		return err
	}
	return unknownChannel(name, known)
}

// claimRow is a row of the insert, as json_to_recordset reads it.
type claimRow struct {
	N         int              `json:"n"`
	RunID     string           `json:"run_id"`
	EffectKey string           `json:"effect_key"`
	RunNumber int64            `json:"run_epoch"`
	Kind      string           `json:"kind"`
	Channel   string           `json:"channel"`
	Digest    string           `json:"digest"`
	Payload   string           `json:"payload"`
	Lane      *string          `json:"lane"`
	Due       time.Time        `json:"due_at"`
	Expires   *time.Time       `json:"expires_at"`
	Approval  *ledger.Approval `json:"approval"`
	Created   time.Time        `json:"created_at"`
	Trace     *string          `json:"trace_parent"`
}

// insert writes the claims in order of lane, then key, so that two batches never wait for each other in a ring.
func (c *claiming) insert(ctx context.Context) error {
	first := make([]int, 0, len(c.places))
	for k, at := range c.places {
		if !c.before[k] {
			first = append(first, at[0])
		}
	}
	sort.Slice(first, func(a, b int) bool {
		x, y := c.prepared[first[a]], c.prepared[first[b]]
		if x.Lane != y.Lane {
			return x.Lane < y.Lane
		}
		if x.RunID != y.RunID {
			return x.RunID < y.RunID
		}
		return x.EffectKey < y.EffectKey
	})
	all := make([]claimRow, len(first))
	for n, at := range first {
		p := c.prepared[at]
		i := p.Intent(c.now)
		all[n] = claimRow{
			N: n, RunID: i.RunID, EffectKey: i.EffectKey, RunNumber: i.RunNumber, Kind: i.Kind, Channel: i.Channel, Digest: i.PayloadDigest,
			Payload: string(i.Payload), Due: i.DueAt, Approval: i.Approval, Created: i.CreatedAt,
		}
		if i.Lane != "" {
			all[n].Lane = &i.Lane
		}
		if !i.ExpiresAt.IsZero() {
			all[n].Expires = &i.ExpiresAt
		}
		if i.TraceParent != "" {
			all[n].Trace = &i.TraceParent
		}
	}
	c.fresh = map[ledger.Key]bool{}
	for len(all) > 0 {
		n := min(len(all), claimChunk)
		if err := c.insertRows(ctx, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// insertRows inserts by one statement.
func (c *claiming) insertRows(ctx context.Context, all []claimRow) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode claims: %w", err)
	}
	return each(ctx, c.e, func(r rows) error {
		var k ledger.Key
		var position int64
		var due, created time.Time
		if err := r.Scan(&k.RunID, &k.EffectKey, &position, &due, &created, &c.seq); err != nil {
			return err
		}
		c.fresh[k] = true
		p := c.prepared[c.places[k][0]]
		i := p.Intent(c.now)
		i.LanePosition, i.DueAt, i.CreatedAt = position, due.UTC(), created.UTC()
		if !i.ExpiresAt.IsZero() {
			i.ExpiresAt = i.ExpiresAt.UTC().Round(time.Microsecond)
		}
		for n, at := range c.places[k] {
			c.results[at] = ledger.ClaimResult{Status: ledger.ClaimNew, Key: k, Intent: i}
			if n > 0 {
				c.results[at].Status = ledger.ClaimDeduplicated
			}
		}
		return nil
	}, c.l.sql.claim, string(raw))
}

// compare reads the intents that were there already, by a statement of its own: one combined with the insert could miss what a
// concurrent duplicate wrote.
func (c *claiming) compare(ctx context.Context) error {
	type keyRow struct {
		RunID     string `json:"run_id"`
		EffectKey string `json:"effect_key"`
	}
	var there []keyRow
	for k := range c.places {
		if !c.fresh[k] {
			there = append(there, keyRow{k.RunID, k.EffectKey})
		}
	}
	if len(there) > 0 {
		found := 0
		err := each(ctx, c.e, func(r rows) error {
			var row intentRow
			if err := r.Scan(row.targets()...); err != nil {
				return err
			}
			found++
			for _, at := range c.places[row.intent.Key] {
				c.results[at] = ledger.ClaimResult{Status: ledger.ClaimDeduplicated, Key: row.intent.Key, Intent: row.intent}
			}
			return row.finishInto(c.results, c.places[row.intent.Key])
		}, c.l.sql.existing, jsonText(there))
		if err != nil {
			return err
		}
		if found != len(there) {
			return fmt.Errorf("read %d intents that were claimed before: found %d", len(there), found)
		}
	}
	return c.judge(ctx)
}

// finishInto completes the row and puts it into the results.
func (r *intentRow) finishInto(results []ledger.ClaimResult, at []int) error {
	if err := r.finish(); err != nil {
		return err
	}
	for _, n := range at {
		results[n].Intent = r.intent
	}
	return nil
}

// judge tells duplicates from conflicts and logs the duplicates.
func (c *claiming) judge(ctx context.Context) error {
	type logRow struct {
		ID        string    `json:"id"`
		RunID     string    `json:"run_id"`
		EffectKey string    `json:"effect_key"`
		Attempt   int       `json:"attempt"`
		At        time.Time `json:"at"`
	}
	var conflict error
	var log []logRow
	for n := range c.results {
		r, p := &c.results[n], c.prepared[n]
		if r.Status == ledger.ClaimNew {
			continue
		}
		if r.Intent.PayloadDigest != p.PayloadDigest {
			r.Status = ledger.ClaimConflict
			if conflict == nil {
				conflict = &ledger.KeyConflictError{Key: r.Key, Have: r.Intent.PayloadDigest, Wanted: p.PayloadDigest}
			}
			continue
		}
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make an id: %w", err)
		}
		log = append(log, logRow{id.String(), r.Key.RunID, r.Key.EffectKey, r.Intent.Attempts, c.now})
	}
	if len(log) > 0 {
		if _, err := c.e.exec(ctx, c.l.sql.dedupe, jsonText(log)); err != nil {
			return err
		}
	}
	return conflict
}

// useApprovals gives each new intent one slot of its approval's count.
func (c *claiming) useApprovals(ctx context.Context) error {
	for n := range c.prepared {
		p := c.prepared[n]
		key := ledger.Key{RunID: p.RunID, EffectKey: p.EffectKey}
		if p.Approval == nil || !c.fresh[key] || c.places[key][0] != n {
			continue
		}
		if err := c.useApproval(ctx, p); err != nil {
			return named(err, n, len(c.prepared))
		}
	}
	return nil
}

func (c *claiming) useApproval(ctx context.Context, p ledger.Prepared) error {
	count := max(p.Approval.Count, 1)
	for range count + 1 { // each further try means that somebody else took a slot
		taken, err := c.e.exec(ctx, c.l.sql.useApproval, p.Approval.Reference, count, p.RunID, p.EffectKey)
		if err != nil {
			return err
		}
		if taken == 1 {
			return nil
		}
	}
	return &ledger.InvalidError{Field: "approval", Reason: fmt.Sprintf("the reference %.128q was used already; it serves %d", p.Approval.Reference, count)}
}

// verifyLeases comes last: the share lock keeps the lease as it is until the caller's transaction ends, and is held as briefly as can be.
func (c *claiming) verifyLeases(ctx context.Context) error {
	seen := map[fence.Lease]bool{}
	for _, p := range c.prepared {
		if p.Lease == nil || seen[*p.Lease] {
			continue
		}
		seen[*p.Lease] = true
		if err := verifyLease(ctx, c.l, c.e, *p.Lease); err != nil {
			return err
		}
	}
	return nil
}
