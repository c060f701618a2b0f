package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func retentionTopic() topic {
	return topic{"retention", []testCase{
		{name: "removes payload, tokens and log of what ended long ago, and keeps what it was", run: pruneRemoves},
		{name: "keeps what ended lately, lives, or owes a receipt", run: pruneKeeps},
		{name: "a pruned key is still deduplicated, and still conflicts", run: pruneDeduplicates},
		{name: "late evidence for a pruned intent fills it, and gets its receipt", run: pruneLate},
		{name: "goes page by page, can be cut off anywhere, and a dry run removes nothing", run: prunePages},
		{name: "removes engine instances that are gone and own nothing", run: pruneInstances},
		{name: "no SQL removes a payload, token or log row otherwise", run: pruneSQL},
	}}
}

// older makes intents look as if they had ended that much earlier.
func (f *fixture) older(d time.Duration, keys ...ledger.Key) {
	f.t.Helper()
	if f.Advance != nil { // the clock goes on instead
		f.Advance(d)
		return
	}
	// Nobody may change it: not even here, without taking the guard away.
	for _, k := range keys {
		f.must(f.Exec(f.ctx(), fmt.Sprintf(`DO $do$ BEGIN
ALTER TABLE effect_intents DISABLE TRIGGER effect_intents_move;
UPDATE effect_intents SET committed_at = committed_at - interval '%d seconds'%s;
ALTER TABLE effect_intents ENABLE ALWAYS TRIGGER effect_intents_move;
END $do$`, int(d.Seconds()), where(k))))
	}
}

// prune prunes until it is done, in pages of limit.
func (f *fixture) prune(olderThan time.Duration, limit int, dryRun bool) (sum ledger.Pruned) {
	f.t.Helper()
	for calls := 0; ; calls++ {
		p, err := f.Ledger.Prune(f.ctx(), olderThan, limit, dryRun)
		f.must(err)
		if limit > 0 && p.Intents > limit {
			f.t.Fatalf("one call pruned %d intents, at most %d were asked for", p.Intents, limit)
		}
		sum.Intents, sum.Tokens, sum.LogRows, sum.Instances = sum.Intents+p.Intents, sum.Tokens+p.Tokens, sum.LogRows+p.LogRows, sum.Instances+p.Instances
		if p.Done {
			sum.Done = true
			return sum
		}
		if calls > 1000 {
			f.t.Fatal("it is never done")
		}
	}
}

const day = 24 * time.Hour

func pruneRemoves(f *fixture) {
	k := f.claim()
	f.committed(k)
	a := f.abandoned()
	before := f.read(k)
	f.older(2*day, k, a)
	p := f.prune(day, 100, false)
	if p.Intents < 2 || p.Tokens < 1 || p.LogRows < 3 {
		f.t.Errorf("pruned %+v", p)
	}
	got, tokens, err := f.Ledger.Intent(f.ctx(), k)
	f.must(err)
	if len(got.Payload) != 0 || got.PrunedAt.IsZero() || len(tokens) != 0 || f.outcomes(k) != "" {
		f.t.Errorf("left is payload %q, %d tokens, log %q, pruned at %s", got.Payload, len(tokens), f.outcomes(k), got.PrunedAt)
	}
	if got.Key != before.Key || got.PayloadDigest != before.PayloadDigest || got.State != before.State || string(got.Evidence) != string(before.Evidence) ||
		got.Outcome() != "committed" || got.Channel != before.Channel {
		f.t.Errorf("pruned it is %+v", got)
	}
	if rs := f.receipts(k); len(rs) != 1 || len(rs[0].Envelope) == 0 {
		f.t.Errorf("its receipts are %+v", rs)
	}
	if n := f.queryInt("SELECT count(*) FROM evidence_ids" + where(k)); n != 1 {
		f.t.Errorf("%d evidence ids are left", n)
	}
	r := again(a)
	_, err = f.tryRedrive(r)
	f.refused(err, "pruned")
	if p := f.prune(day, 100, false); p.Intents != 0 || p.LogRows != 0 {
		f.t.Errorf("a second pass pruned %+v", p)
	}
}

func pruneKeeps(f *fixture) {
	for _, wrong := range []time.Duration{0, -day, day - 1} {
		_, err := f.Ledger.Prune(f.ctx(), wrong, 10, false)
		f.namesField(err, "older_than")
	}
	old, live, sent := f.claim(), f.claim(), f.claim()
	f.committed(old)
	f.stamped(sent)
	owing := f.Reopen(f.t, nil) // without a signer
	owed := f.claim()
	i := f.stamped(owed)
	_, err := owing.Move(f.ctx(), owed, sentAs(i, uuid.NewString()))
	f.must(err)
	f.older(2*day, old, owed)
	late := f.abandoned()
	f.older(time.Hour, late)
	f.prune(day, 1, false)
	for _, k := range []ledger.Key{live, sent, owed, late} {
		if i := f.read(k); !i.PrunedAt.IsZero() || len(i.Payload) == 0 {
			f.t.Errorf("%s (%s) was pruned", k, i.State)
		}
	}
	if f.read(old).PrunedAt.IsZero() {
		f.t.Error("the old one was kept")
	}
	_, _, err = f.Ledger.PayReceipts(f.ctx(), 10)
	f.must(err)
	f.prune(day, 1, false)
	if f.read(owed).PrunedAt.IsZero() {
		f.t.Error("it was kept after its receipt was paid")
	}
}

func pruneDeduplicates(f *fixture) {
	c := f.newClaim()
	k := f.claimAll(c)[0]
	f.committed(k)
	f.older(2*day, k)
	f.prune(day, 100, false)
	results, err := f.tryClaim(c)
	f.must(err)
	if results[0].Status != ledger.ClaimDeduplicated || results[0].Intent.State != ledger.StateCommitted || results[0].Intent.PrunedAt.IsZero() {
		f.t.Errorf("claimed again it is %s: %+v", results[0].Status, results[0].Intent)
	}
	c.Payload = []byte(`{"to":"mallory@example.org"}`)
	_, err = f.tryClaim(c)
	var conflict *ledger.KeyConflictError
	if !errors.As(err, &conflict) {
		f.t.Errorf("with another payload: %v", err)
	}
}

func pruneLate(f *fixture) {
	k, i := f.unknown()
	f.older(2*day, k)
	f.prune(day, 100, false)
	r := f.move(k, lateSent(k, i, "late-"+f.run))
	got := f.is(k, ledger.StateAbandoned)
	if r.Alarm == "" || ledger.EvidenceID(got.LateEvidence) != "late-"+f.run || got.Outcome() != "abandoned, took effect later" {
		f.t.Errorf("after late evidence: alarm %q, %s", r.Alarm, got.Outcome())
	}
	if rs := f.receipts(k); len(rs) != 2 || rs[1].Outcome != "late" || rs[1].Owed {
		f.t.Errorf("receipts are %+v", rs)
	}
	late, err := f.Ledger.LateEvidence(f.ctx(), k)
	f.must(err)
	if len(late) != 1 {
		f.t.Errorf("%d pieces of late evidence are kept", len(late))
	}
	f.prune(day, 100, false)
}

func prunePages(f *fixture) {
	f.older(2 * day)
	f.prune(day, 0, false) // what other cases left
	var keys []ledger.Key
	for range 7 {
		keys = append(keys, f.abandoned())
	}
	f.older(2*day, keys...)
	if p := f.prune(day, 2, true); p.Intents != 7 || p.LogRows != 7 {
		f.t.Errorf("a dry run counts %+v, want 7 intents with a log row each", p)
	}
	if n := len(f.prunedOf(keys)); n != 0 {
		f.t.Fatalf("a dry run pruned %d", n)
	}
	p, err := f.Ledger.Prune(f.ctx(), day, 2, true)
	f.must(err)
	cut, cancel := context.WithCancel(f.ctx())
	cancel()
	if again, err := f.Ledger.Prune(cut, day, 2, true); err == nil || p.Done {
		f.t.Fatalf("a call whose context has ended: %+v after %+v", again, p)
	}
	if p := f.prune(day, 2, true); p.Intents != 7 {
		f.t.Errorf("a dry run after one that was cut off counts %d, want all 7", p.Intents)
	}
	p, err = f.Ledger.Prune(f.ctx(), day, 3, false)
	f.must(err)
	if p.Intents != 3 || p.Done || len(f.prunedOf(keys)) != 3 {
		f.t.Errorf("the first page is %+v, %d are pruned", p, len(f.prunedOf(keys)))
	}
	other := f.Reopen(f.t, &Signer{}) // it was cut off; another process begins from the start
	if p, err = other.Prune(f.ctx(), day, 100, false); err != nil || p.Intents != 4 || !p.Done {
		f.t.Errorf("the rest is %+v, %v", p, err)
	}
	if p := f.prune(day, 100, false); p.Intents != 0 {
		f.t.Errorf("%d were pruned twice", p.Intents)
	}
}

func (f *fixture) prunedOf(keys []ledger.Key) (pruned []ledger.Key) {
	f.t.Helper()
	for _, k := range keys {
		if !f.read(k).PrunedAt.IsZero() {
			pruned = append(pruned, k)
		}
	}
	return pruned
}

func pruneInstances(f *fixture) {
	alive, gone, owner, holder := "alive-"+f.run, "gone-"+f.run, "owner-"+f.run, "holder-"+f.run
	for _, id := range []string{gone, owner, holder} {
		f.must(f.Ledger.Heartbeat(f.ctx(), fence.Instance{ID: id, Host: "h", Process: 1, Version: "1", StartedAt: f.now()}))
	}
	k := f.claim()
	f.fence(1, func(r *ledger.FenceRequest) { r.Owner, r.Only = owner, &k })
	_, lease := f.leased(holder)
	if lease.Fence.Owner != holder {
		f.t.Fatalf("the lease is %s's", lease.Fence.Owner)
	}
	if f.Advance != nil {
		f.Advance(2 * day)
	} else {
		f.must(f.Exec(f.ctx(), "UPDATE engine_instances SET last_seen = last_seen - interval '2 days'"))
	}
	f.must(f.Ledger.Heartbeat(f.ctx(), fence.Instance{ID: alive, Host: "h", Process: 1, Version: "1", StartedAt: f.now()}))
	counted, removed := f.prune(day, 100, true), f.prune(day, 100, false)
	if counted.Instances != removed.Instances || removed.Instances < 1 {
		f.t.Errorf("a dry run counts %d instances, %d were removed", counted.Instances, removed.Instances)
	}
	all, err := f.Ledger.Instances(f.ctx())
	f.must(err)
	var left []string
	for _, i := range all {
		left = append(left, i.ID)
	}
	for id, want := range map[string]bool{alive: true, gone: false, owner: true, holder: true} {
		if slices.Contains(left, id) != want {
			f.t.Errorf("%s is there: %v, want %v", id, !want, want)
		}
	}
}

func pruneSQL(f *fixture) {
	done, live, fresh := f.claim(), f.claim(), f.claim()
	f.committed(done)
	f.stamped(live)
	owing, owed := f.Reopen(f.t, nil), f.claim()
	i := f.stamped(owed)
	_, err := owing.Move(f.ctx(), owed, ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.BySend})
	f.must(err)
	f.older(2*day, done, owed)
	f.committed(fresh)
	pruned := "payload = '', pruned_at = '2026-01-02T03:04:05.678901Z'"
	ways := f.ways()
	for _, w := range ways {
		if w.ignores {
			continue
		}
		for name, c := range map[string]struct {
			k   ledger.Key
			set string
		}{
			"a live one":                    {live, pruned},
			"one that ended today":          {fresh, pruned},
			"one that owes a receipt":       {owed, pruned},
			"without its time":              {done, "payload = ''"},
			"with its payload left":         {done, "pruned_at = '2026-01-02T03:04:05.678901Z'"},
			"with another payload":          {done, `payload = '{}', pruned_at = '2026-01-02T03:04:05.678901Z'`},
			"with another end, by the way":  {done, pruned + ", state = 'abandoned', abandoned_as = 'unknown'"},
			"with other evidence":           {done, pruned + `, external_ref = '{"id":"mine"}'`},
			"with another digest":           {done, pruned + ", payload_digest = '" + strings.Repeat("0", 64) + "'"},
			"with a fence number":           {done, pruned + ", fence_epoch = fence_epoch + 1"},
			"with the time of its end":      {done, pruned + ", committed_at = created_at"},
			"with another lane or approval": {done, pruned + `, approval = '{"by":"mallory"}'`},
		} {
			if f.attempt(w.before, w.text(c.k, f.read(c.k), c.set, "")) == nil {
				f.t.Errorf("%s: pruning %s was allowed", w.name, name)
			}
		}
		if err := f.attempt(w.before, w.text(done, f.read(done), pruned, "")); err != nil {
			f.t.Errorf("%s: a prune as it should be was refused: %v", w.name, err)
		}
	}
	f.prune(day, 100, false)
	if f.read(done).PrunedAt.IsZero() {
		f.t.Fatal("it was not pruned")
	}
	for _, w := range ways {
		if w.ignores {
			continue
		}
		for _, set := range []string{"pruned_at = NULL", "payload = '{}'", "pruned_at = '2026-02-02T03:04:05.678901Z'"} {
			if f.attempt(w.before, w.text(done, f.read(done), set, "")) == nil {
				f.t.Errorf("%s of a pruned intent: %s was allowed", w.name, set)
			}
		}
		for _, table := range []string{"effect_tokens", "outbox_dispatch_log"} {
			if f.attempt(w.before, "DELETE FROM "+table+where(live)) == nil {
				f.t.Errorf("deleting from %s was allowed", table)
			}
		}
	}
}
