package api

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// claimed claims one mail and returns its key, for the ledger and for the API.
func claimed(t *testing.T, w *world, name string) (ledger.Key, pawlclient.Key) {
	t.Helper()
	run := newRun()
	if _, err := w.service.Claim(t.Context(), mailClaim(run, name)); err != nil {
		t.Fatal(err)
	}
	return ledger.Key{RunID: run, EffectKey: name}, pawlclient.Key{RunID: run, EffectKey: name}
}

func TestAPersonSettlesAHeldIntentAsItWasShown(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		key, _ := claimed(t, w, "mail:lost/answer#1")
		held(t, w.ledger, key)
		token := w.token(t, "operate", "read")
		var holds pawlclient.IntentPage
		w.call(t, token, "GET", "/v1/holds?run_id="+key.RunID, nil).into(t, &holds)
		if len(holds.Intents) != 1 || holds.Intents[0].FenceNumber == 0 {
			t.Fatalf("holds: %+v", holds)
		}
		path, number := "/v1/intents/"+key.RunID+"/mail:lost%2Fanswer%231/resolve", holds.Intents[0].FenceNumber
		r := w.call(t, token, "POST", path, pawlclient.Resolve{As: "sent", Reason: "it is there", Number: number + 1})
		if p := r.problem(t); r.status != 409 || p.Code != pawlclient.CodeMoved {
			t.Fatalf("another number: %d %s", r.status, r.body)
		}
		r = w.call(t, token, "POST", path, pawlclient.Resolve{As: "sent", By: "Ada Lovelace", Reason: "it is there", Number: number})
		var i pawlclient.Intent
		if r.into(t, &i); r.status != 200 || i.State != pawlclient.StateCommitted || i.By != "Ada Lovelace" {
			t.Fatalf("resolve: %d %s", r.status, r.body)
		}
		r = w.call(t, token, "POST", path, pawlclient.Resolve{As: "retry", Reason: "again", Number: i.FenceNumber})
		if p := r.problem(t); r.status != 409 || p.Code != pawlclient.CodeEnded {
			t.Errorf("after its end: %d %s", r.status, r.body)
		}
	})
}

func TestEveryActionOfAnOperatorIsInTheTrailTwice(t *testing.T) {
	w := newWorld(t)
	key, _ := claimed(t, w, "mail:a")
	operator, admin := w.issue(t, "operate"), w.token(t, "admin")
	for _, c := range []struct {
		path, body string
		action     string
		result     string
	}{
		{"/v1/intents/" + key.RunID + "/mail:a/cancel", `{"reason":"withdrawn","by":"Ada"}`, "intent.cancel", "done"},
		{"/v1/intents/" + key.RunID + "/mail:a/cancel", `{"reason":"again"}`, "intent.cancel", "refused"},
		{"/v1/channels/mail%2Fshop/pause", `{"reason":"slow"}`, "channel.pause", "done"},
		{"/v1/channels/mail%2Fshop/resume", `{}`, "channel.resume", "done"},
		{"/v1/channels/mail%2Fshop/flag", `{"flag":"shadow"}`, "channel.flag", "done"},
		{"/v1/channels/mail%2Fnone/pause", `{"reason":"slow"}`, "channel.pause", "refused"},
		{"/v1/runs/" + newRun() + "/cancel", `{"reason":"r"}`, "run.cancel", "refused"},
	} {
		w.call(t, operator.Secret, "POST", c.path, c.body)
		var page pawlclient.AuditPage
		w.call(t, admin, "GET", "/v1/audit?limit=2", nil).into(t, &page)
		if len(page.Entries) != 2 {
			t.Fatalf("%s: %d rows", c.path, len(page.Entries))
		}
		last, first := page.Entries[0], page.Entries[1]
		if first.Action != c.action || first.Result != "asked" || last.Action != c.action || last.Result != c.result {
			t.Errorf("%s: %s %s, then %s %s", c.path, first.Action, first.Result, last.Action, last.Result)
		}
		if first.Actor != operator.Name || first.TokenID != operator.ID || first.Subject == "" {
			t.Errorf("%s: %+v", c.path, first)
		}
	}
}

func TestNothingIsDoneThatCannotBeWrittenDown(t *testing.T) {
	l, _ := newLedger(t)
	w := worldOver(t, &broken{Ledger: l, err: errors.New("the disk is full")}, func(o *ServiceOptions, _ *HandlerOptions) { o.Actor = Actor{Name: "Ada"} })
	key, k := claimed(t, w, "mail:a")
	_, err := w.service.Cancel(t.Context(), k, pawlclient.Cancel{Reason: "r"})
	var p *pawlclient.Problem
	if !errors.As(err, &p) || p.Code != pawlclient.CodeUnavailable {
		t.Errorf("cancel: %v", err)
	}
	if i, _, err := l.Intent(t.Context(), key); err != nil || i.State != ledger.StateIntent || i.CancelReason != "" {
		t.Errorf("it was cancelled all the same: %+v, %v", i, err)
	}
	if _, err := w.service.PauseChannel(t.Context(), mailChannel, "", "r"); err == nil {
		t.Error("pause worked")
	}
	if row, err := l.ChannelRow(t.Context(), mailChannel); err != nil || row.Paused {
		t.Errorf("it is paused all the same: %v, %v", row.Paused, err)
	}
}

func TestAProblemKeepsItsCauseInThisProcess(t *testing.T) {
	w := newWorld(t, func(o *ServiceOptions, _ *HandlerOptions) { o.Actor = Actor{Name: "Ada"} })
	ctx := t.Context()
	_, k := claimed(t, w, "mail:a")
	other := mailClaim(k.RunID, k.EffectKey)
	other.Payload = json.RawMessage(`{"to":"b@example.org","subject":"s"}`)
	_, conflict := w.service.Claim(ctx, other)
	var have *ledger.KeyConflictError
	if !errors.As(conflict, &have) {
		t.Errorf("conflict: %v", conflict)
	}
	if _, err := w.service.Intent(ctx, pawlclient.Key{RunID: newRun(), EffectKey: "mail:x"}, false); !errors.Is(err, ledger.ErrNoIntent) {
		t.Errorf("no intent: %v", err)
	}
	if _, err := w.service.Channel(ctx, "mail/none"); !errors.Is(err, ledger.ErrUnknownChannel) {
		t.Errorf("no channel: %v", err)
	}
	if _, err := w.service.Run(ctx, newRun()); !errors.Is(err, fence.ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
	if _, err := w.service.SetFlag(ctx, mailChannel, "", "off"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Claim(ctx, mailClaim(newRun(), "mail:b")); !errors.Is(err, ledger.ErrChannelOff) {
		t.Errorf("off: %v", err)
	}
	if _, err := w.service.PauseChannel(ctx, mailChannel, "", ""); err == nil {
		t.Error("a pause without a reason")
	}
}

func TestARedriveIsLinkedAndDeduplicated(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		key, _ := claimed(t, w, "mail:a")
		token := w.token(t, "operate")
		at := "/v1/intents/" + key.RunID + "/"
		if r := w.call(t, token, "POST", at+"mail:a/cancel", `{"reason":"r"}`); r.status != 200 {
			t.Fatal(r.body)
		}
		var made, again pawlclient.ClaimResult
		r := w.call(t, token, "POST", at+"mail:a/redrive", `{"reason":"wanted after all"}`)
		if r.into(t, &made); r.status != 201 || made.Intent.EffectKey == "mail:a" || made.Intent.RedriveOf != "mail:a" {
			t.Fatalf("redrive: %d %s", r.status, r.body)
		}
		r = w.call(t, token, "POST", at+"mail:a/redrive", `{"reason":"once more"}`)
		if r.into(t, &again); r.status != 200 || again.Intent.EffectKey != made.Intent.EffectKey {
			t.Errorf("again: %d %s", r.status, r.body)
		}
		var d pawlclient.Detail
		w.call(t, token, "GET", at+"mail:a", nil).into(t, &d)
		if d.Intent.RedrivenAs != made.Intent.EffectKey {
			t.Errorf("redriven as %q", d.Intent.RedrivenAs)
		}
	})
}

func TestAReceiptThatIsGivenOutVerifies(t *testing.T) {
	w := newWorld(t)
	key, _ := claimed(t, w, "mail:a")
	committed(t, w.ledger, key)
	token := w.token(t, "read")
	var list receiptList
	w.call(t, token, "GET", "/v1/intents/"+key.RunID+"/mail:a/receipts", nil).into(t, &list)
	if len(list.Receipts) != 1 || list.Receipts[0].Owed {
		t.Fatalf("receipts: %+v", list)
	}
	envelope := string(list.Receipts[0].Envelope)
	var v pawlclient.Verdict
	w.call(t, token, "POST", "/v1/receipts/verify", envelope).into(t, &v)
	if !v.OK {
		t.Errorf("verdict: %+v", v)
	}
	other, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := receipt.NewKeyRing(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	w2 := worldOver(t, w.ledger, func(o *ServiceOptions, _ *HandlerOptions) { o.Trusted = ring })
	var bad pawlclient.Verdict
	w2.call(t, token, "POST", "/v1/receipts/verify", envelope).into(t, &bad)
	if bad.OK || bad.Failed != string(receipt.CheckSignature) {
		t.Errorf("by another key: %+v", bad)
	}
}
