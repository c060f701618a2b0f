package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// openEpoch opens the next epoch.
func (f *fixture) openEpoch(horizon, term time.Duration) ledger.EpochRow {
	f.t.Helper()
	from, err := f.Ledger.Epoch(f.ctx())
	f.must(err)
	e, err := f.Ledger.OpenEpoch(f.ctx(), ledger.OpenEpoch{By: "Ann", Reason: "restored last night's backup", From: from, Horizon: horizon, FenceTerm: term})
	f.must(err)
	return e
}

func epochOpens(f *fixture) {
	before, err := f.Ledger.Epochs(f.ctx())
	f.must(err)
	from := before[len(before)-1].Epoch
	good := ledger.OpenEpoch{By: "Ann", Reason: "restored", From: from, Horizon: time.Hour, FenceTerm: time.Minute}
	for field, change := range map[string]func(*ledger.OpenEpoch){
		"by": func(o *ledger.OpenEpoch) { o.By = "" }, "reason": func(o *ledger.OpenEpoch) { o.Reason = " " },
		"from": func(o *ledger.OpenEpoch) { o.From = 0 }, "horizon": func(o *ledger.OpenEpoch) { o.Horizon = -1 },
		"fence_term": func(o *ledger.OpenEpoch) { o.FenceTerm = -1 },
	} {
		o := good
		change(&o)
		_, err := f.Ledger.OpenEpoch(f.ctx(), o)
		f.namesField(err, field)
	}
	wrong := good
	wrong.From++
	_, err = f.Ledger.OpenEpoch(f.ctx(), wrong)
	f.wants(err, ledger.ErrNumberMoved)
	start := f.now()
	e, err := f.Ledger.OpenEpoch(f.ctx(), good)
	f.must(err)
	if e.Epoch != from+1 || e.LedgerID != f.Ledger.ID() || e.Horizon != time.Hour || e.FenceTerm != time.Minute || e.By != "Ann" || e.Reason != "restored" || e.OpenedAt.Before(start) {
		f.t.Errorf("opened %+v", e)
	}
	_, err = f.Ledger.OpenEpoch(f.ctx(), good) // the answer to the first one may be lost: it is not done twice
	f.wants(err, ledger.ErrNumberMoved)
	after, err := f.Ledger.Epochs(f.ctx())
	f.must(err)
	if len(after) != len(before)+1 || after[len(before)] != e {
		f.t.Errorf("the epochs are %+v, want %+v at the end", after, e)
	}
	f.openEpoch(0, 0) // ends the horizon for the cases that follow
}

func epochOpensOnce(f *fixture) {
	from, err := f.Ledger.Epoch(f.ctx())
	f.must(err)
	const many = 5
	errs := make([]error, many)
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() {
			_, errs[n] = f.Ledger.OpenEpoch(f.ctx(), ledger.OpenEpoch{By: "Ann", Reason: fmt.Sprint("window ", n), From: from})
		})
	}
	group.Wait()
	opened := 0
	for _, err := range errs {
		switch {
		case err == nil:
			opened++
		case !errors.Is(err, ledger.ErrNumberMoved):
			f.t.Error(err)
		}
	}
	if epoch, err := f.Ledger.Epoch(f.ctx()); err != nil || epoch != from+1 || opened != 1 {
		f.t.Errorf("%d were opened, the epoch is %d after %d (%v)", opened, epoch, from, err)
	}
}

func epochMarks(f *fixture) {
	waiting, dispatched, stamped, held, done, ended := f.claim(), f.claim(), f.claim(), f.claim(), f.claim(), f.abandoned()
	f.fenced(dispatched)
	f.stamped(stamped)
	f.stamped(held)
	p := f.probing(held)
	f.move(held, ledger.Hold{Fence: p.Fence(), Reason: "look", Look: longEnough})
	f.committed(done)
	f.openEpoch(0, 0)
	for k, want := range map[ledger.Key]bool{waiting: true, dispatched: true, stamped: true, held: true, done: false, ended: false} {
		if got := f.read(k); got.ProbeFirst != want {
			f.t.Errorf("one that is %s (%s): probe first is %v", got.State, got.Outcome(), got.ProbeFirst)
		}
	}
	if r := f.fence(10); len(r.Dispatches) != 0 {
		f.t.Errorf("%d were dispatched unprobed", len(r.Dispatches))
	}
	if got := f.read(waiting); got.State != ledger.StateDispatched || !got.Probing || got.Starts != 0 {
		f.t.Errorf("the one that waited is %+v", got)
	}
}

func epochStamp(f *fixture) {
	k := f.claim()
	d := f.fenced(k)
	m := f.stamp(d.Intent)
	f.openEpoch(0, 0)
	for _, l := range []ledger.Ledger{f.Ledger, f.Reopen(f.t, &Signer{})} {
		_, err := l.Move(f.ctx(), k, m)
		f.wants(err, ledger.ErrFenceLost)
		_, err = l.Move(f.ctx(), k, ledger.PutToken{Fence: d.Intent.Fence(), Token: newToken(1)})
		f.wants(err, ledger.ErrFenceLost)
	}
	if got := f.read(k); got.Stamped() || got.Attempts != 0 {
		f.t.Errorf("it was stamped: %+v", got)
	}
}

func epochHorizon(f *fixture) {
	f.openEpoch(time.Hour, 0)
	bySQL := f.newClaim()
	p, err := ledger.Prepare(bySQL)
	f.must(err)
	f.must(f.Exec(f.ctx(), insertOf("INSERT INTO", ledger.Key{RunID: bySQL.RunID, EffectKey: bySQL.EffectKey}, p.Intent(f.now()), "", "")))
	for _, k := range []ledger.Key{f.claim(), {RunID: bySQL.RunID, EffectKey: bySQL.EffectKey}} {
		if !f.read(k).ProbeFirst {
			f.t.Errorf("%s was claimed before the horizon and is not probed first", k)
		}
	}
	if r := f.fence(5); len(r.Dispatches) != 0 || len(r.Settled) != 2 {
		f.t.Errorf("%d were dispatched, %d settled", len(r.Dispatches), len(r.Settled))
	}
	f.use(exactSheet())
	f.openEpoch(0, 0)
	f.after(f.now())
	if k := f.claim(); f.read(k).ProbeFirst {
		f.t.Error("a claim after the horizon is probed first")
	} else {
		f.committed(k)
	}
}

func epochBeside(f *fixture) {
	c := f.newClaim()
	tx := f.begin()
	_, err := f.Ledger.Claim(f.ctx(), tx.Tx, c)
	f.must(err)
	f.openEpoch(0, time.Minute)
	f.must(tx.Commit())
	k := ledger.Key{RunID: c.RunID, EffectKey: c.EffectKey}
	if r := f.fence(1); len(r.Dispatches) != 0 || len(r.Settled) != 1 {
		f.t.Errorf("%d were dispatched, %d settled", len(r.Dispatches), len(r.Settled))
	}
	if got := f.read(k); !got.ProbeFirst || got.LastPossibleSend.IsZero() {
		f.t.Errorf("it is %+v, want it marked, with a last possible send", got)
	}
}

func epochAbsence(f *fixture) {
	k := f.claim()
	const term = 300 * time.Millisecond
	e := f.openEpoch(0, term)
	f.fence(1)
	m := probeFence()
	m.Sheet = exactSheet()
	p := f.move(k, m)
	if p.FirstPossible.IsZero() || p.FirstPossible.After(p.Intent.CreatedAt) {
		f.t.Errorf("a probe must look back to %s, the claim was at %s", p.FirstPossible, p.Intent.CreatedAt)
	}
	_, err := f.try(k, ledger.Reopen{Fence: p.Intent.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: p.Now, ClockAllowance: 1})
	f.refused(err, "no-settle-time")
	began := f.after(e.OpenedAt.Add(term + 1))
	f.move(k, ledger.Reopen{Fence: p.Intent.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: began, ClockAllowance: 1})
	if got := f.is(k, ledger.StateIntent); got.ProbeFirst || got.InDoubt() {
		f.t.Errorf("after the absence it is %+v", got)
	}
	f.committed(k)
}

func epochToken(f *fixture) {
	sheet := exactSheet()
	sheet.Token = channel.TokenAllocated
	f.use(sheet)
	bare, stored := f.claim(), f.claim()
	f.stamped(stored)
	f.openEpoch(0, 0)
	f.fence(2)
	f.endFence(stored)
	m := probeFence()
	m.Sheet = sheet
	for k, rule := range map[ledger.Key]string{bare: "restore-token-lost", stored: ""} {
		p := f.move(k, m).Intent
		absent := ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: f.after(p.AbsenceCountsFrom(1)), ClockAllowance: 1}
		_, err := f.try(k, absent)
		if rule != "" {
			f.refused(err, rule)
			f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "look for it by its content", Look: longEnough})
			continue
		}
		f.must(err)
	}
	d := f.fenced(stored)
	again := f.stamp(d.Intent)
	again.Token = nil
	i := f.move(stored, again).Intent
	_, err := f.try(stored, ledger.PutToken{Fence: i.Fence(), Token: newToken(2), NotSent: true})
	f.refused(err, "restore-token-lost")
}

func epochSQL(f *fixture) {
	k, d := f.claim(), f.claim()
	f.openEpoch(0, 0)
	f.fence(2)
	waiting := f.claim()
	f.restored(waiting)
	list := "{}"
	if f.Dialect == SQLite {
		list = "[]"
	}
	ended := ", committed_at = effect_intents.created_at"
	for _, w := range f.ways() {
		if w.ignores {
			continue
		}
		for name, c := range map[string]struct {
			k       ledger.Key
			set     string
			allowed bool
		}{
			"forget it":                            {k, "probe_first = FALSE", false},
			"forget it while it waits":             {waiting, "probe_first = FALSE", false},
			"send it unprobed":                     {waiting, "state = 'dispatched', proof = '', fence_owner = 'x', ledger_epoch = 9, starts = effect_intents.starts + 1, attempts = effect_intents.attempts + 1, send_started_at = effect_intents.created_at, " + next, false},
			"forget it in the fence":               {waiting, "state = 'dispatched', proof = '', fence_owner = 'x', ledger_epoch = 9, probe_first = FALSE, " + next, false},
			"call it never sent":                   {waiting, "state = 'abandoned', abandoned_as = 'never_sent'" + ended, false},
			"call it never sent, with a proof":     {waiting, "state = 'abandoned', abandoned_as = 'never_sent', proof = 'person'" + ended, false},
			"call it never sent, dispatched":       {d, "state = 'abandoned', abandoned_as = 'never_sent', proof = 'no_stamp'" + ended, false},
			"reopen it without a stamp, forgetful": {d, "state = 'intent', proof = 'no_stamp', probe_first = FALSE, " + free, false},
			"reopen it replay-safe, forgetful":     {d, "state = 'intent', proof = 'replay_safe', probe_first = FALSE, " + free, false},
			"reopen it, absent for good":           {d, "state = 'intent', proof = 'absent_for_good', probe_first = FALSE, " + free, true},
			"reopen it replay-safe, in doubt":      {d, "state = 'intent', proof = 'replay_safe', probe_first = FALSE, may_have_taken_effect = TRUE, doubtful_attempts = '" + list[:1] + "0" + list[1:] + "', " + free, true},
			"a person says that it was never sent": {d, "state = 'abandoned', abandoned_as = 'never_sent', proof = 'person'" + ended, true},
		} {
			err := f.attempt(w.before, w.text(c.k, f.read(c.k), c.set, ""))
			if (err == nil) != c.allowed {
				f.t.Errorf("%s: %s: allowed %v, want %v (%v)", w.name, name, err == nil, c.allowed, err)
			}
		}
	}
}

func epochFinish(f *fixture) {
	f.must(f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) error {
		first, err := f.Ledger.RecordOnce(f.ctx(), tx, f.run, "finish", longEnough)
		if err == nil && !first {
			err = errors.New("it was there")
		}
		return err
	}))
	f.openEpoch(0, 0)
	f.must(f.Ledger.Finish(f.ctx(), f.run, "finish", channel.Evidence{ID: "done"}))
	k := ledger.Key{RunID: f.run, EffectKey: "local:finish"}
	f.move(k, probeFence())
	if got := f.is(k, ledger.StateCommitted); ledger.EvidenceID(got.Evidence) != "done" {
		f.t.Errorf("it is committed with %s", got.Evidence)
	}
}

func epochRows(f *fixture) {
	f.openEpoch(0, 0)
	before := []string{""}
	if f.Dialect == Postgres {
		before = append(before, "SET LOCAL session_replication_role = replica")
	}
	for _, sql := range []string{
		"UPDATE ledger_epochs SET opened_by = 'mallory'", "UPDATE ledger_epochs SET epoch = epoch + 1", "DELETE FROM ledger_epochs",
		"INSERT INTO ledger_epochs (ledger_id, epoch) SELECT ledger_id, max(epoch) + 2 FROM ledger_epochs GROUP BY ledger_id",
		"INSERT INTO ledger_epochs (ledger_id, epoch) SELECT '00000000-0000-4000-8000-000000000000', max(epoch) + 1 FROM ledger_epochs",
	} {
		for _, b := range before {
			if f.attempt(b, sql) == nil {
				f.t.Errorf("%s was allowed (%s)", sql, b)
			}
		}
	}
}
