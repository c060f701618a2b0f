package ledgertest

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func redriveTopic() topic {
	return topic{"redrive", []testCase{
		{name: "claims an abandoned intent again under a key of its own, linked and logged on both", run: redriveLinks},
		{name: "of a redriven intent takes the next number", run: redriveAgain},
		{name: "asked for twice, or by many at once, makes one intent", run: redriveOnce},
		{name: "refuses what has not ended, took effect, is local or in shadow", run: redriveRefusals},
		{name: "of an unknown end needs the words that duplicates are acceptable", run: redriveUnknown},
		{name: "is refused once evidence has arrived", run: redriveLate},
		{name: "passes over keys that were claimed by hand, and refuses a key that has no room", run: redriveKeys},
		{name: "needs an approval of the new key where the channel requires one", run: redriveApproval},
		{name: "of a cancelled run is refused, as is one without a name or a reason", run: redriveAsked},
	}}
}

// abandoned ends an intent as never sent.
func (f *fixture) abandoned(change ...func(*ledger.Claim)) ledger.Key {
	f.t.Helper()
	k := f.claim(change...)
	f.move(k, ledger.RequestCancel{By: "ann", Reason: "not yet"})
	f.is(k, ledger.StateAbandoned)
	return k
}

// unknown ends an intent as unknown.
func (f *fixture) unknown() (ledger.Key, ledger.Intent) {
	f.t.Helper()
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Abandon{Fence: i.Fence(), As: ledger.Unknown, Policy: true, Reason: "policy"})
	return k, i
}

func again(k ledger.Key) ledger.Redrive {
	return ledger.Redrive{Key: k, By: "Ann", Reason: "it is wanted after all"}
}

func (f *fixture) tryRedrive(r ledger.Redrive) (ledger.ClaimResult, error) {
	f.t.Helper()
	return f.Ledger.Redrive(f.ctx(), r)
}

func (f *fixture) redrive(r ledger.Redrive) ledger.ClaimResult {
	f.t.Helper()
	c, err := f.tryRedrive(r)
	f.must(err)
	return c
}

// linked fails unless the intent's links are these.
func (f *fixture) linked(k ledger.Key, of, as string) {
	f.t.Helper()
	gotOf, gotAs, err := f.Ledger.Links(f.ctx(), k)
	f.must(err)
	if gotOf != of || gotAs != as {
		f.t.Errorf("%s was redriven from %q as %q, want from %q as %q", k.EffectKey, gotOf, gotAs, of, as)
	}
}

func redriveLinks(f *fixture) {
	k := f.abandoned(func(c *ledger.Claim) { c.Payload = []byte(`{ "b":1,  "a":"ä" }`) }, inLane("redrive-"+uuid.NewString()))
	old := f.read(k)
	r := f.redrive(again(k))
	if r.Status != ledger.ClaimNew || r.Key.EffectKey != k.EffectKey+"#2" || r.Key.RunID != k.RunID {
		f.t.Fatalf("redriven as %s, %s", r.Key, r.Status)
	}
	got := f.read(r.Key)
	if !bytes.Equal(got.Payload, old.Payload) || got.PayloadDigest != old.PayloadDigest || got.Channel != old.Channel || got.Lane != old.Lane || got.Kind != old.Kind {
		f.t.Errorf("the new intent is %+v, the old one was %+v", got, old)
	}
	f.linked(k, "", r.Key.EffectKey)
	f.linked(r.Key, k.EffectKey, "")
	f.linked(ledger.Key{RunID: newRunID(), EffectKey: "mail:nothing"}, "", "")
	if !strings.HasSuffix(f.outcomes(k), " redriven") || f.outcomes(r.Key) != "redriven" {
		f.t.Errorf("logs are %q and %q", f.outcomes(k), f.outcomes(r.Key))
	}
	log, err := f.Ledger.Log(f.ctx(), k)
	f.must(err)
	if detail := string(log[len(log)-1].Detail); !strings.Contains(detail, `"by":"Ann"`) || !strings.Contains(detail, "wanted after all") || !strings.Contains(detail, "#2") {
		f.t.Errorf("the log says %s", detail)
	}
	f.is(k, ledger.StateAbandoned)
	f.committed(r.Key)
}

func redriveAgain(f *fixture) {
	k := f.abandoned()
	for _, want := range []string{"#2", "#3", "#4"} {
		r := f.redrive(again(k))
		if !strings.HasSuffix(r.Key.EffectKey, want) || strings.Count(r.Key.EffectKey, "#") != 1 {
			f.t.Fatalf("redriven as %s, want a key that ends with %s", r.Key, want)
		}
		f.move(r.Key, ledger.RequestCancel{By: "ann"})
		k = r.Key
	}
	// A number that the claimer wrote is part of the key.
	own := f.abandoned(func(c *ledger.Claim) { c.EffectKey += "#7" })
	if r := f.redrive(again(own)); r.Key.EffectKey != own.EffectKey+"#2" {
		f.t.Errorf("%s was redriven as %s", own, r.Key)
	}
}

func redriveOnce(f *fixture) {
	k := f.abandoned()
	const many = 6
	results := make([]ledger.ClaimResult, many)
	errs := make([]error, many)
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() { results[n], errs[n] = f.Ledger.Redrive(f.ctx(), again(k)) })
	}
	group.Wait()
	made := 0
	for n, r := range results {
		f.must(errs[n])
		if r.Key.EffectKey != k.EffectKey+"#2" || r.Intent.Key != r.Key {
			f.t.Errorf("redriven as %s (%s)", r.Key, r.Intent.Key)
		}
		if r.Status == ledger.ClaimNew {
			made++
		}
	}
	if made != 1 {
		f.t.Errorf("%d of %d redrives made an intent", made, many)
	}
	f.committed(ledger.Key{RunID: k.RunID, EffectKey: k.EffectKey + "#2"})
	if r := f.redrive(again(k)); r.Status != ledger.ClaimDeduplicated || r.Intent.State != ledger.StateCommitted {
		f.t.Errorf("asked for again, with the first answer lost, it is %s, %s", r.Status, r.Intent.State)
	}
	if n := f.queryInt("SELECT count(*) FROM effect_intents WHERE run_id = " + quote(k.RunID) + " AND effect_key LIKE " + quote(k.EffectKey+"#%")); n != 1 {
		f.t.Errorf("there are %d new intents", n)
	}
}

func redriveRefusals(f *fixture) {
	waiting := f.claim()
	dispatched := f.claim()
	f.fenced(dispatched)
	done := f.claim()
	f.committed(done)
	first := false
	f.must(f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) (err error) {
		first, err = f.Ledger.RecordOnce(f.ctx(), tx, f.run, "redrive", longEnough)
		return err
	}))
	if !first {
		f.t.Fatal("the local effect was there")
	}
	for rule, k := range map[string]ledger.Key{"not-ended": waiting, "committed": done, "local": {RunID: f.run, EffectKey: "local:redrive"}} {
		_, err := f.tryRedrive(again(k))
		f.refused(err, rule)
	}
	_, err := f.tryRedrive(again(dispatched))
	f.refused(err, "not-ended")
	_, err = f.tryRedrive(again(ledger.Key{RunID: newRunID(), EffectKey: "mail:nothing"}))
	f.wants(err, ledger.ErrNoIntent)

	shadow := *f
	shadow.channel = f.addChannel(exactSheet(), func(r *ledger.ChannelRow) { r.Flag = ledger.FlagShadow })
	_, err = f.tryRedrive(again(shadow.abandoned()))
	f.refused(err, "shadow")
	k := f.abandoned()
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagShadow))
	_, err = f.tryRedrive(again(k))
	f.refused(err, "shadow")
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOff))
	_, err = f.tryRedrive(again(k))
	f.wants(err, ledger.ErrChannelOff)
	f.linked(k, "", "")
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagOn))
	f.redrive(again(k))
}

func redriveUnknown(f *fixture) {
	k, _ := f.unknown()
	r := again(k)
	_, err := f.tryRedrive(r)
	f.refused(err, "unknown")
	r.AcceptDuplicates = "yes"
	_, err = f.tryRedrive(r)
	f.namesField(err, "accept_duplicates")
	r.AcceptDuplicates = ledger.DuplicatesAcceptable
	made := f.redrive(r)
	if n := f.queryInt("SELECT count(*) FROM redrives" + where(k) + " AND accepted_duplicates = " + quote(ledger.DuplicatesAcceptable)); n != 1 {
		f.t.Error("the words were not kept")
	}
	f.committed(made.Key)
}

func redriveLate(f *fixture) {
	k, i := f.unknown()
	f.move(k, lateSent(k, i, uuid.NewString()))
	r := again(k)
	r.AcceptDuplicates = ledger.DuplicatesAcceptable
	_, err := f.tryRedrive(r)
	f.refused(err, "took-effect-later")
}

func redriveKeys(f *fixture) {
	k := f.abandoned()
	f.claim(func(c *ledger.Claim) { c.EffectKey = k.EffectKey + "#2" })
	f.claim(func(c *ledger.Claim) { c.EffectKey, c.Payload = k.EffectKey+"#3", []byte(`{"to":"somebody else"}`) })
	if r := f.redrive(again(k)); r.Status != ledger.ClaimNew || r.Key.EffectKey != k.EffectKey+"#4" {
		f.t.Errorf("redriven as %s, %s", r.Key, r.Status)
	}
	long := func(n int) ledger.Key {
		return f.abandoned(func(c *ledger.Claim) { c.EffectKey += strings.Repeat("x", n-len(c.EffectKey)) })
	}
	if r := f.redrive(again(long(ledger.MaxEffectKey - 2))); len(r.Key.EffectKey) != ledger.MaxEffectKey {
		f.t.Errorf("redriven as a key of %d bytes", len(r.Key.EffectKey))
	}
	full := long(ledger.MaxEffectKey - 1)
	_, err := f.tryRedrive(again(full))
	f.namesField(err, "effect_key")
	f.linked(full, "", "")
}

func redriveApproval(f *fixture) {
	c := f.newClaim()
	k := f.claimAll(c)[0]
	f.move(k, ledger.RequestCancel{By: "ann"})
	row, err := f.Ledger.ChannelRow(f.ctx(), f.channel)
	f.must(err)
	row.ApprovalRequired = true
	f.must(f.Ledger.PutChannel(f.ctx(), row))
	r := again(k)
	_, err = f.tryRedrive(r)
	f.namesField(err, "approval")
	r.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0) // of the old key
	_, err = f.tryRedrive(r)
	f.namesField(err, "approval")
	c.EffectKey += "#2"
	r.Approval = f.approve(c, "ticket-"+uuid.NewString(), 0)
	if made := f.redrive(r); made.Intent.Approval == nil || made.Intent.Approval.Reference != r.Approval.Reference {
		f.t.Errorf("the new intent has approval %+v", made.Intent.Approval)
	}
}

func redriveAsked(f *fixture) {
	k := f.abandoned()
	for field, change := range map[string]func(*ledger.Redrive){
		"by": func(r *ledger.Redrive) { r.By = " " }, "reason": func(r *ledger.Redrive) { r.Reason = "" },
		"run_id": func(r *ledger.Redrive) { r.RunID = "seven" },
	} {
		r := again(k)
		change(&r)
		_, err := f.tryRedrive(r)
		var invalid *ledger.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			f.t.Errorf("%s: %v", field, err)
		}
	}
	run := newRunID()
	_, _, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{ID: run})
	f.must(err)
	k = f.abandoned(func(c *ledger.Claim) { c.RunID = run })
	f.must(f.Ledger.CancelRun(f.ctx(), run, "ann", "enough"))
	_, err = f.tryRedrive(again(k))
	f.refused(err, "run-cancelled")
}
