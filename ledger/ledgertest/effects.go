package ledgertest

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func effectsTopic() topic {
	return topic{"plain Go effects", []testCase{
		{name: "RecordOnce is true for the first caller only, and follows its transaction", run: recordOnce},
		{name: "RecordOnce at once by many is true once", run: recordRace},
		{name: "Finish commits once", run: recordFinish},
		{name: "a recorded effect that is not finished expires as unknown", run: recordExpires},
		{name: "no dispatcher takes the local channel", run: localNotFenced},
		{name: "BeginGuard claims, fences and stamps in one", run: guardBegins},
		{name: "BeginGuard under a lost lease does nothing", run: guardLease},
	}}
}

func (f *fixture) recordOnce(key string, expires time.Duration) (first bool) {
	f.t.Helper()
	f.must(f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) (err error) {
		first, err = f.Ledger.RecordOnce(f.ctx(), tx, f.run, key, expires)
		return err
	}))
	return first
}

func recordOnce(f *fixture) {
	key := "charge-" + uuid.NewString()
	tx := f.begin()
	first, err := f.Ledger.RecordOnce(f.ctx(), tx.Tx, f.run, key, time.Hour)
	f.must(err)
	f.must(tx.Rollback())
	if !first || !f.recordOnce(key, time.Hour) || f.recordOnce(key, time.Hour) {
		f.t.Error("after a rollback the first caller is the next one, and no other")
	}
	k := ledger.Key{RunID: f.run, EffectKey: "local:" + key}
	if i := f.read(k); i.Channel != ledger.ChannelLocal || i.State.Terminal() {
		f.t.Errorf("recorded is %+v", i)
	}
	f.run = newRunID()
	if !f.recordOnce(key, time.Hour) {
		f.t.Error("the same key of another run is not new")
	}
}

func recordRace(f *fixture) {
	key := "race-" + uuid.NewString()
	var group sync.WaitGroup
	firsts := make([]bool, 4)
	errs := make([]error, 4)
	for n := range firsts {
		group.Go(func() {
			errs[n] = f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) (err error) {
				firsts[n], err = f.Ledger.RecordOnce(f.ctx(), tx, f.run, key, time.Hour)
				return err
			})
		})
	}
	group.Wait()
	f.must(errors.Join(errs...))
	won := 0
	for _, b := range firsts {
		if b {
			won++
		}
	}
	if won != 1 {
		f.t.Errorf("%d of four were first", won)
	}
}

func recordFinish(f *fixture) {
	key := "finish-" + uuid.NewString()
	f.wants(f.Ledger.Finish(f.ctx(), f.run, key, channel.Evidence{}), ledger.ErrNoIntent)
	f.recordOnce(key, time.Hour)
	f.must(f.Ledger.Finish(f.ctx(), f.run, key, channel.Evidence{ID: "r-1", Detail: json.RawMessage(`{"ok":true}`)}))
	k := ledger.Key{RunID: f.run, EffectKey: "local:" + key}
	if i := f.is(k, ledger.StateCommitted); ledger.EvidenceID(i.Evidence) != "r-1" {
		f.t.Errorf("finished with %s", i.Evidence)
	}
	if rs := f.receipts(k); len(rs) != 1 || rs[0].Outcome != "committed" {
		f.t.Errorf("receipts are %+v", rs)
	}
	f.wants(f.Ledger.Finish(f.ctx(), f.run, key, channel.Evidence{ID: "r-2"}), ledger.ErrTerminal)
	if f.recordOnce(key, time.Hour) {
		f.t.Error("a finished effect is new again")
	}
}

func recordExpires(f *fixture) {
	key := "expire-" + uuid.NewString()
	f.recordOnce(key, 20*time.Millisecond)
	k := ledger.Key{RunID: f.run, EffectKey: "local:" + key}
	// However it ends there, by the fence of the local channel or as a due look, nobody may call it never sent.
	f.after(f.read(k).CreatedAt.Add(40 * time.Millisecond))
	_, err := f.Ledger.Fence(f.ctx(), f.request(5, func(r *ledger.FenceRequest) { r.Channel = ledger.ChannelLocal }))
	f.must(err)
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{ledger.ChannelLocal}, 100)
	f.must(err)
	i := f.read(k)
	due := false
	for _, l := range looks {
		due = due || l == k
	}
	switch {
	case i.State == ledger.StateAbandoned && i.AbandonedAs == ledger.Unknown:
	case !i.State.Terminal() && due:
		p := f.move(k, probeFence()).Intent
		f.move(k, ledger.Abandon{Fence: p.Fence(), As: ledger.Unknown, Policy: true, Reason: "expired"})
	default:
		f.t.Errorf("an expired local effect is %s (%s), due for a look: %v", i.State, i.Outcome(), due)
	}
}

func localNotFenced(f *fixture) {
	key := "idle-" + uuid.NewString()
	f.recordOnce(key, time.Hour)
	r, err := f.Ledger.Fence(f.ctx(), f.request(50, func(r *ledger.FenceRequest) { r.Channel = ledger.ChannelLocal }))
	f.must(err)
	if len(r.Dispatches) != 0 {
		f.t.Errorf("a dispatcher got %d local intents", len(r.Dispatches))
	}
}

func guardBegins(f *fixture) {
	g := ledger.GuardRequest{RunID: f.run, Key: "guard-" + uuid.NewString(), Payload: []byte(`{"order": 7}`), Owner: engine, TTL: longEnough}
	r, first, err := f.Ledger.BeginGuard(f.ctx(), g)
	f.must(err)
	k := ledger.Key{RunID: f.run, EffectKey: "local:" + g.Key}
	i := f.is(k, ledger.StateDispatched)
	if !first || !i.Stamped() || i.Starts != 1 || i.Attempts != 1 || i.Fence() != r.Intent.Fence() || i.FenceOwner != engine || r.Remaining <= 0 {
		f.t.Errorf("first %v: %+v", first, i)
	}
	if again, first, err := f.Ledger.BeginGuard(f.ctx(), g); err != nil || first || again.Intent.State != ledger.StateDispatched {
		f.t.Errorf("a second caller: first %v, %v", first, err)
	}
	f.move(k, ledger.Commit{Fence: r.Intent.Fence(), Evidence: channel.Evidence{Detail: json.RawMessage(`3`)}, Established: ledger.BySend})
	again, first, err := f.Ledger.BeginGuard(f.ctx(), g)
	f.must(err)
	if first || again.Intent.State != ledger.StateCommitted || string(ledger.DecodeEvidence(again.Intent.Evidence).Detail) != "3" {
		f.t.Errorf("after the end: first %v, %+v", first, again.Intent)
	}
	g.Payload = []byte(`{"order": 8}`)
	var conflict *ledger.KeyConflictError
	if _, _, err := f.Ledger.BeginGuard(f.ctx(), g); !errors.As(err, &conflict) {
		f.t.Errorf("the same key with another payload: %v", err)
	}
	g.Key, g.Payload = "guard-"+uuid.NewString(), nil
	if r, first, err := f.Ledger.BeginGuard(f.ctx(), g); err != nil || !first || strings.TrimSpace(string(r.Intent.Payload)) != "null" {
		f.t.Errorf("without a payload: first %v, %v, %q", first, err, r.Intent.Payload)
	}
}

func guardLease(f *fixture) {
	run, l := f.leased("worker-1")
	g := ledger.GuardRequest{RunID: run, Key: "guard-" + uuid.NewString(), Lease: &l, Owner: "worker-1", TTL: longEnough}
	lost := l
	lost.Fence.Number++
	g.Lease = &lost
	_, _, err := f.Ledger.BeginGuard(f.ctx(), g)
	f.wants(err, fence.ErrLost)
	_, _, err = f.Ledger.Intent(f.ctx(), ledger.Key{RunID: run, EffectKey: "local:" + g.Key})
	f.wants(err, ledger.ErrNoIntent)
	g.Lease = &l
	if _, first, err := f.Ledger.BeginGuard(f.ctx(), g); err != nil || !first {
		f.t.Errorf("under a good lease: first %v, %v", first, err)
	}
}
