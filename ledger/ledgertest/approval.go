package ledgertest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/ledger"
)

func approvalTopic() topic {
	return topic{"approval", []testCase{
		{name: "is refused where it is for something else, spent, over or missing", run: approvalRefusals},
		{name: "serves one intent unless it states a count", run: approvalCount},
		{name: "is not used up by a claim that was rolled back or deduplicated", run: approvalKept},
		{name: "that ran out before the send ends the intent as never sent", run: approvalRunsOut},
		{name: "that is spent is not used again by plain SQL", run: approvalSpentBySQL},
		{name: "claimed beside the library is looked at again at the fence", run: approvalAtFence},
	}}
}

// approve makes the approval of a claim, good for an hour.
func (f *fixture) approve(c ledger.Claim, reference string, count int) *ledger.Approval {
	f.t.Helper()
	p, err := ledger.Prepare(c)
	f.must(err)
	digest, err := ledger.ApprovalDigest(c.Channel, c.EffectKey, p.PayloadDigest)
	f.must(err)
	return &ledger.Approval{By: "Ann", Reference: reference, Until: f.now().Add(time.Hour), Digest: digest, Count: count}
}

func needsApproval(r *ledger.ChannelRow) { r.ApprovalRequired = true }

func approvalRefusals(f *fixture) {
	f.use(exactSheet(), needsApproval)
	other := f.newClaim()
	used := f.newClaim()
	used.Approval = f.approve(used, "ticket-"+uuid.NewString(), 0)
	f.claimAll(used)
	for name, change := range map[string]func(*ledger.Claim){
		"missing":             func(c *ledger.Claim) { c.Approval = nil },
		"of another key":      func(c *ledger.Claim) { c.Approval = f.approve(other, "t-"+uuid.NewString(), 0) },
		"of another payload":  func(c *ledger.Claim) { c.Payload = []byte(`{"to":"mallory@example.org"}`) },
		"over":                func(c *ledger.Claim) { c.Approval.Until = f.now().Add(-time.Second) },
		"by nobody":           func(c *ledger.Claim) { c.Approval.By = "" },
		"without a reference": func(c *ledger.Claim) { c.Approval.Reference = "" },
		"used":                func(c *ledger.Claim) { c.Approval.Reference = used.Approval.Reference },
	} {
		c := f.newClaim()
		c.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0)
		change(&c)
		results, err := f.tryClaim(c)
		if err == nil {
			f.t.Errorf("an approval that is %s was taken: %+v", name, results)
			continue
		}
		f.namesField(err, "approval")
	}
}

func approvalCount(f *fixture) {
	reference := "ticket-" + uuid.NewString()
	for n := range 3 {
		c := f.newClaim()
		c.Approval = f.approve(c, reference, 2)
		_, err := f.tryClaim(c)
		if n < 2 {
			f.must(err)
			continue
		}
		f.namesField(err, "approval")
	}
}

func approvalKept(f *fixture) {
	c := f.newClaim()
	c.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0)
	tx := f.begin()
	_, err := f.Ledger.Claim(f.ctx(), tx.Tx, c)
	f.must(err)
	f.must(tx.Rollback())
	f.claimAll(c)
	results, err := f.tryClaim(c)
	f.must(err)
	if results[0].Status != ledger.ClaimDeduplicated {
		f.t.Errorf("claimed again with its own approval it is %s, want deduplicated", results[0].Status)
	}
}

func approvalRunsOut(f *fixture) {
	c := f.newClaim()
	c.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0)
	c.Approval.Until = f.now().Add(80 * time.Millisecond)
	results, err := f.tryClaim(c)
	f.must(err)
	f.after(c.Approval.Until)
	r := f.fence(1)
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 {
		f.t.Fatalf("got %d dispatches and %d settled, want none and one", len(r.Dispatches), len(r.Settled))
	}
	if i := f.is(results[0].Key, ledger.StateAbandoned); i.AbandonedAs != ledger.NeverSent || i.Attempts != 0 {
		f.t.Errorf("it ended as %s after %d attempts, want never sent", i.AbandonedAs, i.Attempts)
	}
}

func approvalSpentBySQL(f *fixture) {
	f.use(exactSheet(), needsApproval)
	used := f.newClaim()
	used.Approval = f.approve(used, "ticket-"+uuid.NewString(), 0)
	f.claimAll(used)
	f.fence(1)
	c := f.newClaim()
	p, err := ledger.Prepare(c)
	f.must(err)
	approval, err := json.Marshal(f.approve(c, used.Approval.Reference, 0))
	f.must(err)
	err = f.Exec(f.ctx(), fmt.Sprintf(
		"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind, approval) VALUES (%s, %s, %s, %s, %s, 'mail', %s)",
		quote(c.RunID), quote(c.EffectKey), quote(c.Channel), quote(string(c.Payload)), quote(p.PayloadDigest), quote(string(approval))))
	if err != nil {
		return // refused when it was written
	}
	if r := f.fence(1, func(r *ledger.FenceRequest) { r.ApprovalRequired = true }); len(r.Dispatches) != 0 {
		f.t.Error("an approval that is spent let a second intent go")
	}
}

func approvalAtFence(f *fixture) {
	f.use(exactSheet(), needsApproval)
	c := f.newClaim()
	p, err := ledger.Prepare(c)
	f.must(err)
	f.must(f.Exec(f.ctx(), fmt.Sprintf(
		"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind) VALUES (%s, %s, %s, %s, %s, 'mail')",
		quote(c.RunID), quote(c.EffectKey), quote(c.Channel), quote(string(c.Payload)), quote(p.PayloadDigest))))
	r := f.fence(1, func(r *ledger.FenceRequest) { r.ApprovalRequired = true })
	if len(r.Dispatches) != 0 || len(r.Settled) != 1 || r.Settled[0].AbandonedAs != ledger.NeverSent {
		f.t.Errorf("an intent without its approval gave %d dispatches, settled %+v", len(r.Dispatches), r.Settled)
	}
}
