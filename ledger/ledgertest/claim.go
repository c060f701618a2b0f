package ledgertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func claimTopic() topic {
	return topic{"claim", []testCase{
		{name: "commits and rolls back with the caller's own transaction", run: claimFollowsCaller},
		{name: "stores every field as it was claimed", run: claimStoresFields},
		{name: "of the same key and payload is deduplicated", run: claimDeduplicates},
		{name: "asked for again is deduplicated, whatever would refuse it by now", run: claimAskedAgain},
		{name: "of the same key with another payload is a typed conflict", run: claimConflicts},
		{name: "answers a batch in the order of the claims", run: claimAnswersInOrder},
		{name: "of a batch is all or nothing", run: claimBatchIsAtomic},
		{name: "made twice at the same time wins once", run: claimRace},
		{name: "waits for an open duplicate and then tells the truth", run: claimBehindOpenDuplicate, needsWriters: true},
		{name: "in a deadlock says retry your transaction", run: claimDeadlock, needsWriters: true},
		{name: "obeys the channel's flag", run: claimObeysFlag},
		{name: "on an unknown channel names the known ones", run: claimUnknownChannel},
		{name: "that breaks the payload schema names the member", run: claimChecksSchema},
		{name: "that cannot be right names its field", run: claimNamesField},
		{name: "made by plain SQL is an intent like any other", run: claimByPlainSQL},
	}}
}

// claimAskedAgain is the caller whose COMMIT reported an error and had worked: what he is told must not be that nothing will be sent.
func claimAskedAgain(f *fixture) {
	c := f.newClaim()
	f.claimAll(c)
	other := f.newClaim()
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOff))
	again := func(why string) {
		f.t.Helper()
		r, err := f.tryClaim(c)
		if err != nil || r[0].Status != ledger.ClaimDeduplicated || r[0].Key.EffectKey != c.EffectKey {
			f.t.Errorf("%s: got %+v, %v", why, r, err)
		}
		if _, err := f.tryClaim(c, other); err == nil {
			f.t.Errorf("%s: a new claim was taken beside it", why)
		}
		changed := c
		changed.Payload = []byte(`{"to":"somebody else"}`)
		if r, err := f.tryClaim(changed); err == nil {
			f.t.Errorf("%s: another payload got %+v", why, r)
		}
	}
	again("channel off")
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOn))
	f.must(f.Ledger.PutChannel(f.ctx(), ledger.ChannelRow{Name: f.channel, Kind: "mail", Sheet: exactSheet(), Flag: ledger.FlagOn, ApprovalRequired: true}))
	again("approval required")
	if _, _, err := f.Ledger.Intent(f.ctx(), ledger.Key{RunID: other.RunID, EffectKey: other.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		f.t.Errorf("the claim that was refused left something: %v", err)
	}
}

func claimFollowsCaller(f *fixture) {
	lost, kept := f.newClaim(), f.newClaim()
	for _, c := range []struct {
		claim ledger.Claim
		end   func(*Transaction) error
	}{{lost, func(tx *Transaction) error { return tx.Rollback() }}, {kept, func(tx *Transaction) error { return tx.Commit() }}} {
		tx := f.begin()
		results, err := f.Ledger.Claim(f.ctx(), tx.Tx, c.claim)
		f.must(err)
		if results[0].Status != ledger.ClaimNew {
			f.t.Errorf("claim is %s, want new", results[0].Status)
		}
		f.must(c.end(tx))
	}
	if _, _, err := f.Ledger.Intent(f.ctx(), ledger.Key{RunID: lost.RunID, EffectKey: lost.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		f.t.Errorf("a claim that was rolled back left something: %v", err)
	}
	if d := f.fence(5).Dispatches; len(d) != 1 || d[0].Intent.EffectKey != kept.EffectKey {
		f.t.Errorf("after one commit and one rollback %d intents are due, want the one", len(d))
	}
	again, err := f.tryClaim(lost)
	f.must(err)
	if again[0].Status != ledger.ClaimNew {
		f.t.Errorf("the key of a claim that was rolled back is %s, want new", again[0].Status)
	}
}

func (f *fixture) begin() *Transaction {
	f.t.Helper()
	tx, err := f.Begin(f.ctx())
	f.must(err)
	f.t.Cleanup(func() { _ = tx.Rollback() }) // harmless after Commit
	return tx
}

func claimStoresFields(f *fixture) {
	now := f.now().Truncate(time.Microsecond)
	c := f.newClaim(inLane("ledger of ann"))
	c.RunID = strings.ToUpper(c.RunID)
	c.Payload = []byte("{\n \"b\": 1.50, \"a\": \"\\u00e9\" }") // the exact bytes, not their canonical form
	c.DueAt, c.ExpiresAt = now.Add(time.Hour), now.Add(2*time.Hour)
	c.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0)
	k := f.claimAll(c)[0]
	i := f.read(k)
	switch {
	case i.RunID != strings.ToLower(c.RunID), i.EffectKey != c.EffectKey, i.Channel != c.Channel, i.Kind != "mail":
		f.t.Errorf("identity is %s %s %s", i.Key, i.Channel, i.Kind)
	case !bytes.Equal(i.Payload, c.Payload):
		f.t.Errorf("payload is %q, want the exact bytes %q", i.Payload, c.Payload)
	case i.Lane != c.Lane, i.LanePosition != 1:
		f.t.Errorf("lane is %q at %d", i.Lane, i.LanePosition)
	case !i.DueAt.Equal(c.DueAt), !i.ExpiresAt.Equal(c.ExpiresAt):
		f.t.Errorf("due %s and expires %s, want %s and %s", i.DueAt, i.ExpiresAt, c.DueAt, c.ExpiresAt)
	case i.Approval == nil || i.Approval.Reference != c.Approval.Reference || i.Approval.Digest != c.Approval.Digest || i.Approval.By != "Ann":
		f.t.Errorf("approval is %+v, want %+v", i.Approval, c.Approval)
	case i.State != ledger.StateIntent, i.FenceNumber != 0, i.Starts != 0, i.Attempts != 0, i.Stamped(), i.InDoubt(), i.Held(), i.Accepted():
		f.t.Errorf("a new intent has a past: %+v", i)
	case i.CreatedAt.Before(now.Add(-time.Second)):
		f.t.Errorf("created at %s, before it was claimed at %s", i.CreatedAt, now)
	}
}

func claimDeduplicates(f *fixture) {
	c := f.newClaim()
	c.Payload = []byte(`{"a":1,"b":2}`)
	k := f.claimAll(c)[0]
	f.committed(k)
	again := c
	again.Payload = []byte("{ \"b\": 2, \"a\": 1.0 }") // the same value
	results, err := f.tryClaim(again)
	f.must(err)
	if r := results[0]; r.Status != ledger.ClaimDeduplicated || r.Key != k || r.Intent.State != ledger.StateCommitted {
		f.t.Errorf("second claim is %s of %s in state %s, want deduplicated of a committed one", r.Status, r.Key, r.Intent.State)
	}
	twin := f.newClaim()
	results, err = f.tryClaim(twin, twin)
	f.must(err)
	if results[0].Status != ledger.ClaimNew || results[1].Status != ledger.ClaimDeduplicated {
		f.t.Errorf("the same claim twice in one batch is %s, %s, want new, deduplicated", results[0].Status, results[1].Status)
	}
	f.fence(10)
	if log := f.outcomes(k); !strings.Contains(log, string(ledger.LogDeduped)) {
		f.t.Errorf("the log %q does not tell of the deduplication", log)
	}
}

func claimConflicts(f *fixture) {
	c := f.newClaim()
	f.claimAll(c)
	other := c
	other.Payload = []byte(`{"to":"bob@example.org"}`)
	fresh := f.newClaim()
	results, err := f.tryClaim(fresh, other)
	var conflict *ledger.KeyConflictError
	if !errors.As(err, &conflict) {
		f.t.Fatalf("got error %v, want a key conflict", err)
	}
	if conflict.Key.EffectKey != c.EffectKey || conflict.Have == conflict.Wanted || conflict.Have == "" {
		f.t.Errorf("the conflict says %+v", conflict)
	}
	if len(results) != 2 || results[1].Status != ledger.ClaimConflict {
		f.t.Errorf("results are %+v, want the second in conflict", results)
	}
	if _, _, err := f.Ledger.Intent(f.ctx(), ledger.Key{RunID: fresh.RunID, EffectKey: fresh.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		f.t.Errorf("the transaction of a conflict was not rolled back: %v", err)
	}
}

func claimAnswersInOrder(f *fixture) {
	var claims []ledger.Claim
	for i := range 40 { // not in the order of lanes or keys
		c := f.newClaim()
		c.EffectKey = fmt.Sprintf("mail:%02d-%s", (i*17)%40, uuid.NewString())
		if i%3 == 0 {
			c.Lane = fmt.Sprintf("%02d-%s", (i*29)%40, f.run)
		}
		claims = append(claims, c)
	}
	old := claims[7]
	f.claimAll(old)
	results, err := f.tryClaim(claims...)
	f.must(err)
	if len(results) != len(claims) {
		f.t.Fatalf("%d results for %d claims", len(results), len(claims))
	}
	for i, r := range results {
		want := ledger.ClaimNew
		if i == 7 {
			want = ledger.ClaimDeduplicated
		}
		if r.Status != want || r.Key.EffectKey != claims[i].EffectKey || r.Intent.EffectKey != claims[i].EffectKey || r.Intent.Lane != claims[i].Lane {
			f.t.Errorf("result %d is %s of %s, want %s of %s", i, r.Status, r.Key.EffectKey, want, claims[i].EffectKey)
		}
	}
	if results, err := f.tryClaim(); err != nil || len(results) != 0 {
		f.t.Errorf("an empty batch gave %v, %v", results, err)
	}
}

func claimBatchIsAtomic(f *fixture) {
	good, bad := f.newClaim(), f.newClaim()
	bad.Payload = []byte(`{"to":`)
	_, err := f.tryClaim(good, bad)
	f.namesField(err, "payload")
	if _, _, err := f.Ledger.Intent(f.ctx(), ledger.Key{RunID: good.RunID, EffectKey: good.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		f.t.Errorf("half a batch was claimed: %v", err)
	}
}

func claimRace(f *fixture) {
	for range 10 {
		c := f.newClaim()
		var group sync.WaitGroup
		statuses := make([]ledger.ClaimStatus, 4)
		errs := make([]error, len(statuses))
		for n := range statuses {
			group.Go(func() {
				errs[n] = f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) error {
					r, err := f.Ledger.Claim(f.ctx(), tx, c)
					if err == nil {
						statuses[n] = r[0].Status
					}
					return err
				})
			})
		}
		group.Wait()
		f.must(errors.Join(errs...))
		slices.Sort(statuses)
		if want := []ledger.ClaimStatus{"deduplicated", "deduplicated", "deduplicated", "new"}; !slices.Equal(statuses, want) {
			f.t.Fatalf("four claims of one key at once are %v, want one new and no lost answer", statuses)
		}
	}
}

func claimBehindOpenDuplicate(f *fixture) {
	for _, commits := range []bool{true, false} {
		c := f.newClaim()
		tx := f.begin()
		_, err := f.Ledger.Claim(f.ctx(), tx.Tx, c)
		f.must(err)
		answer := make(chan ledger.ClaimStatus, 1)
		var group sync.WaitGroup
		group.Go(func() {
			results, err := f.tryClaim(c)
			if err != nil || len(results) != 1 {
				f.t.Errorf("the claim behind an open duplicate failed: %v", err)
				answer <- "failed"
				return
			}
			answer <- results[0].Status
		})
		select {
		case s := <-answer:
			f.t.Fatalf("a duplicate was answered (%s) before its rival's transaction ended", s)
		case <-time.After(50 * time.Millisecond):
		}
		want := ledger.ClaimDeduplicated
		if commits {
			f.must(tx.Commit())
		} else {
			want = ledger.ClaimNew
			f.must(tx.Rollback())
		}
		if s := <-answer; s != want {
			f.t.Errorf("rival committed %v: the duplicate is %s, want %s", commits, s, want)
		}
		group.Wait()
	}
}

func claimDeadlock(f *fixture) {
	a, b := f.newClaim(), f.newClaim()
	first, second := f.begin(), f.begin()
	_, err := f.Ledger.Claim(f.ctx(), first.Tx, a)
	f.must(err)
	_, err = f.Ledger.Claim(f.ctx(), second.Tx, b)
	f.must(err)
	errs := make(chan error, 2)
	var group sync.WaitGroup
	for _, c := range []struct {
		tx    *Transaction
		claim ledger.Claim
	}{{first, b}, {second, a}} {
		group.Go(func() {
			_, err := f.Ledger.Claim(f.ctx(), c.tx.Tx, c.claim)
			_ = c.tx.Rollback() // lets the other one go on
			errs <- err
		})
	}
	group.Wait()
	close(errs)
	typed := 0
	for err := range errs {
		if errors.Is(err, ledger.ErrRetryTransaction) {
			typed++
		} else if err != nil {
			f.t.Errorf("a deadlock came back as %v", err)
		}
	}
	if typed != 1 {
		f.t.Errorf("%d of two deadlocked claims were told to retry, want 1", typed)
	}
}

func claimObeysFlag(f *fixture) {
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOff))
	_, err := f.tryClaim(f.newClaim())
	f.wants(err, ledger.ErrChannelOff)

	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagPaused))
	waiting := f.claim()
	if n := len(f.fence(5).Dispatches); n != 0 {
		f.t.Errorf("a paused channel dispatched %d", n)
	}

	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagShadow))
	c := f.newClaim()
	shadow := f.claimAll(c)[0]
	if shadow.EffectKey != ledger.ShadowPrefix+c.EffectKey {
		f.t.Errorf("a claim in shadow is stored as %s", shadow.EffectKey)
	}

	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOn))
	results, err := f.tryClaim(c)
	f.must(err)
	if results[0].Status != ledger.ClaimNew || results[0].Key.EffectKey != c.EffectKey {
		f.t.Errorf("after shadow the real key is %s as %s, want new", results[0].Status, results[0].Key.EffectKey)
	}
	d := f.fenced(shadow)
	_, err = f.try(shadow, f.stamp(d.Intent))
	f.refused(err, "shadow")
	f.is(waiting, ledger.StateIntent)
}

func claimUnknownChannel(f *fixture) {
	c := f.newClaim()
	c.Channel = "mail/nowhere"
	_, err := f.tryClaim(c)
	f.wants(err, ledger.ErrUnknownChannel)
	if !strings.Contains(err.Error(), f.channel) || !strings.Contains(err.Error(), "mail/nowhere") {
		f.t.Errorf("%q names neither the unknown channel nor a known one", err)
	}
}

func claimChecksSchema(f *fixture) {
	sheet := exactSheet()
	sheet.PayloadSchema = json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"object","properties":{"address":{"type":"string","minLength":3}}}}}`)
	sheet.MaxPayload = 100
	f.use(sheet)
	c := f.newClaim()
	for payload, field := range map[string]string{
		`{"to":{"address":"x"}}`: "payload.to.address", `{"to":3}`: "payload.to", `{}`: "payload", `[]`: "payload",
		`{"to":{"x":"` + strings.Repeat("y", 100) + `"}}`: "payload",
	} {
		c.Payload = []byte(payload)
		_, err := f.tryClaim(c)
		f.namesField(err, field)
	}
	c.Payload = []byte(`{"to":{"address":"ann@example.org"}}`)
	f.claimAll(c)
}

func claimNamesField(f *fixture) {
	lane := f.addChannel(func() channel.Sheet { s := exactSheet(); s.LaneRequired = true; return s }())
	for field, change := range map[string]func(*ledger.Claim){
		"run_id":     func(c *ledger.Claim) { c.RunID = "order 1" },
		"effect_key": func(c *ledger.Claim) { c.EffectKey = "telegram:1" },
		"channel":    func(c *ledger.Claim) { c.Channel = "Mail Room" },
		"lane":       func(c *ledger.Claim) { c.Channel = lane },
		"payload":    func(c *ledger.Claim) { c.Payload = []byte("{}{}") },
		"expires_at": func(c *ledger.Claim) { c.DueAt = f.now(); c.ExpiresAt = c.DueAt },
	} {
		_, err := f.tryClaim(f.newClaim(change))
		f.namesField(err, field)
	}
}

func claimByPlainSQL(f *fixture) {
	c := f.newClaim()
	p, err := ledger.Prepare(c)
	f.must(err)
	f.must(f.Exec(f.ctx(), fmt.Sprintf(
		"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind) VALUES (%s, %s, %s, %s, %s, 'mail')",
		quote(c.RunID), quote(c.EffectKey), quote(c.Channel), quote(string(c.Payload)), quote(p.PayloadDigest))))
	k := ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey}
	i := f.is(k, ledger.StateIntent)
	if i.CreatedAt.IsZero() || i.DueAt.IsZero() || !bytes.Equal(i.Payload, c.Payload) || i.Kind != "mail" {
		f.t.Errorf("the defaults of a plain claim are %+v", i)
	}
	d := f.fence(1).Dispatches
	if len(d) != 1 || d[0].Intent.Key != k {
		f.t.Fatalf("a plain claim is not due: %d dispatches", len(d))
	}
	results, err := f.tryClaim(c)
	f.must(err)
	if results[0].Status != ledger.ClaimDeduplicated {
		f.t.Errorf("the same claim by the API is %s, want deduplicated", results[0].Status)
	}
	r := f.move(k, f.stamp(d[0].Intent))
	f.move(k, sentAs(r.Intent, uuid.NewString()))
	f.is(k, ledger.StateCommitted)
}
