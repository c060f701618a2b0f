package ledgertest

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func raceTopic() topic {
	return topic{"many at once", []testCase{
		{name: "of a late commit and a probing fence one wins, and nothing is lost", run: raceCommitProbe},
		{name: "one of many reconcilers takes a dead fence", run: raceProbers},
		{name: "one of two intents gets the evidence, the other is held", run: raceEvidence},
		{name: "one of two intents gets the token, the other hears of a clash", run: raceToken},
		{name: "one token version is stored, and both workers are told which", run: raceAdopt},
		{name: "an owed receipt is paid once", run: racePayers},
		{name: "a call that was given up writes nothing", run: cancelledContext},
	}}
}

// atOnce runs the functions at the same time and returns their errors.
func atOnce(fs ...func() error) []error {
	errs := make([]error, len(fs))
	var group sync.WaitGroup
	gate := make(chan struct{})
	for n, g := range fs {
		group.Go(func() {
			<-gate
			errs[n] = g()
		})
	}
	close(gate)
	group.Wait()
	return errs
}

func (f *fixture) moving(k ledger.Key, m ledger.Move) func() error {
	return func() error { _, err := f.Ledger.Move(f.ctx(), k, m); return err }
}

func raceCommitProbe(f *fixture) {
	for range 8 {
		k := f.claim()
		i := f.stamped(k)
		f.endFence(k)
		m := sentAs(i, uuid.NewString())
		errs := atOnce(f.moving(k, m), f.moving(k, probeFence()))
		switch got := f.read(k); {
		case errs[0] == nil && got.State == ledger.StateCommitted && errors.Is(errs[1], ledger.ErrTerminal):
		case errors.Is(errs[0], ledger.ErrFenceLost) && errs[1] == nil && got.State == ledger.StateDispatched && got.Probing:
			f.move(k, lateSent(k, i, m.Evidence.ID)) // what the worker does then
			f.move(k, ledger.RequestCancel{By: "ann"})
		default:
			f.t.Fatalf("commit: %v, probing fence: %v, row %s", errs[0], errs[1], got.State)
		}
		if got := f.is(k, ledger.StateCommitted); ledger.EvidenceID(got.Evidence) != m.Evidence.ID {
			f.t.Errorf("committed with %s", got.Evidence)
		}
	}
}

func raceProbers(f *fixture) {
	k := f.claim()
	f.stamped(k)
	f.endFence(k)
	var fs []func() error
	for range 4 {
		m := probeFence()
		m.Owner = uuid.NewString()
		fs = append(fs, f.moving(k, m))
	}
	won := 0
	for _, err := range atOnce(fs...) {
		if err == nil {
			won++
		} else if !errors.Is(err, ledger.ErrFenceAlive) {
			f.t.Errorf("a loser got %v", err)
		}
	}
	if won != 1 {
		f.t.Errorf("%d of four took one fence", won)
	}
}

func raceEvidence(f *fixture) {
	for range 5 {
		a, b := f.claim(), f.claim()
		i, j := f.stamped(a), f.stamped(b)
		id := uuid.NewString()
		for _, err := range atOnce(f.moving(a, sentAs(i, id)), f.moving(b, sentAs(j, id))) {
			f.must(err)
		}
		x, y := f.read(a), f.read(b)
		if x.State == y.State || x.Held() == y.Held() {
			f.t.Fatalf("one id for two intents: %s (held %v) and %s (held %v)", x.State, x.Held(), y.State, y.Held())
		}
	}
}

func raceToken(f *fixture) {
	for range 5 {
		a, b := f.claim(), f.claim()
		i, j := f.fenced(a).Intent, f.fenced(b).Intent
		t := newToken(1)
		errs := atOnce(f.moving(a, ledger.PutToken{Fence: i.Fence(), Token: t}), f.moving(b, ledger.PutToken{Fence: j.Fence(), Token: t}))
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), ledger.ErrTokenClash) {
			f.t.Fatalf("one token for two intents: %v, %v", errs[0], errs[1])
		}
	}
}

func raceAdopt(f *fixture) {
	for range 5 {
		k := f.claim()
		i := f.fenced(k).Intent
		var got [3]string
		var fs []func() error
		for n := range got {
			fs = append(fs, func() error {
				r, err := f.Ledger.Move(f.ctx(), k, ledger.PutToken{Fence: i.Fence(), Token: newToken(1)})
				got[n] = string(r.Token.Data)
				return err
			})
		}
		f.must(errors.Join(atOnce(fs...)...))
		_, tokens, err := f.Ledger.Intent(f.ctx(), k)
		f.must(err)
		for _, data := range got {
			if len(tokens) != 1 || data != string(tokens[0].Data) {
				f.t.Fatalf("stored are %d tokens; one worker was told %q", len(tokens), data)
			}
		}
	}
}

func racePayers(f *fixture) {
	none := f.Reopen(f.t, nil)
	var keys []ledger.Key
	for range 6 {
		k := f.claim()
		_, err := none.Move(f.ctx(), k, ledger.RequestCancel{By: "ann"})
		f.must(err)
		keys = append(keys, k)
	}
	var mu sync.Mutex
	total := 0
	pay := func(l ledger.Ledger) func() error {
		return func() error {
			for {
				paid, owed, err := l.PayReceipts(f.ctx(), 2)
				mu.Lock()
				total += paid
				mu.Unlock()
				if err != nil || owed == 0 {
					return err
				}
			}
		}
	}
	f.must(errors.Join(atOnce(pay(f.Ledger), pay(f.Reopen(f.t, &Signer{})), pay(f.Ledger))...))
	for _, k := range keys {
		if rs := f.receipts(k); len(rs) != 1 || rs[0].Owed || len(rs[0].Envelope) == 0 {
			f.t.Errorf("receipts of %s are %+v", k.EffectKey, rs)
		}
	}
	if total != len(keys) {
		f.t.Errorf("%d receipts were paid, %d were owed", total, len(keys))
	}
}

func cancelledContext(f *fixture) {
	k := f.claim()
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	if _, err := f.Ledger.Move(ctx, k, ledger.RequestCancel{By: "ann"}); !errors.Is(err, context.Canceled) {
		f.t.Errorf("a move under a context that is over: %v", err)
	}
	if _, err := f.Ledger.Fence(ctx, f.request(1)); !errors.Is(err, context.Canceled) {
		f.t.Errorf("a fence under a context that is over: %v", err)
	}
	f.is(k, ledger.StateIntent)
	errStop := errors.New("the caller thinks better of it")
	err := f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) error {
		if _, err := f.Ledger.Claim(f.ctx(), tx, f.newClaim()); err != nil {
			return err
		}
		return errStop
	})
	f.wants(err, errStop)
	if n := len(f.fence(5).Dispatches); n != 1 {
		f.t.Errorf("%d are due, want the one that was claimed", n)
	}
	i := f.is(k, ledger.StateDispatched)
	f.move(k, f.stamp(i))
	f.move(k, ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: uuid.NewString()}, Established: ledger.BySend})
}
