package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func leaseTopic() topic {
	return topic{"runs and leases", []testCase{
		{name: "a run is created once for its id and its idempotency key", run: runsCreate},
		{name: "acquire, renew, verify and release follow one another", run: leaseLife},
		{name: "a lease that is held is not taken, a dead one is, with a higher number", run: leaseReclaim},
		{name: "a lease that ran out is renewed by nobody", run: leaseExpired},
		{name: "past the ceiling of reclaims a run is quarantined", run: leaseCeiling},
		{name: "is acquired by one of many at once", run: leaseRace},
		{name: "a claim needs the run's lease, and a reclaimed worker has none", run: leaseClaims},
		{name: "an insert by plain SQL for a leased run needs its number", run: leasePlainSQL},
		{name: "runs of dead leases and dead instances are set free", run: reclaimDead},
		{name: "heartbeats are kept on the database's clock", run: heartbeats},
		{name: "cancelling a run cancels what it has not sent", run: cancelRun},
	}}
}

func runsCreate(f *fixture) {
	id := newRunID()
	r, created, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{ID: id})
	f.must(err)
	if !created || r.ID != id || r.Status != fence.StatusReady || r.Number != 0 || r.CreatedAt.IsZero() {
		f.t.Errorf("created %v: %+v", created, r)
	}
	if _, created, err = f.Ledger.CreateRun(f.ctx(), fence.NewRun{ID: id}); err != nil || created {
		f.t.Errorf("created again: %v, %v", created, err)
	}
	key := "invoice-" + uuid.NewString()
	a, created, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{IdempotencyKey: key})
	f.must(err)
	b, again, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{ID: newRunID(), IdempotencyKey: key})
	f.must(err)
	if !created || again || a.ID != b.ID || b.IdempotencyKey != key {
		f.t.Errorf("one idempotency key made %s and %s", a.ID, b.ID)
	}
	if _, err := f.Ledger.Run(f.ctx(), newRunID()); !errors.Is(err, fence.ErrNoRun) {
		f.t.Errorf("a run that was never created: %v", err)
	}
	var group sync.WaitGroup
	ids := make([]string, 4)
	key += "-race"
	for n := range ids {
		group.Go(func() {
			r, _, err := f.Ledger.CreateRun(f.ctx(), fence.NewRun{IdempotencyKey: key})
			if err != nil {
				f.t.Errorf("create at once: %v", err)
			}
			ids[n] = r.ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			f.t.Errorf("created at once, one key has runs %v", ids)
		}
	}
}

func leaseLife(f *fixture) {
	run, l := f.leased("worker-1")
	if l.RunID != run || l.Fence.Number != 1 || l.Fence.Owner != "worker-1" || l.Fence.Epoch == 0 || l.Remaining != longEnough {
		f.t.Errorf("acquired %+v", l)
	}
	f.must(f.Ledger.VerifyLease(f.ctx(), l))
	if _, err := f.Ledger.Acquire(f.ctx(), newRunID(), fence.AcquireOptions{Owner: "w", TTL: time.Second}); !errors.Is(err, fence.ErrNoRun) {
		f.t.Errorf("acquire of no run: %v", err)
	}
	if _, err := f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: "w"}); err == nil {
		f.t.Error("a lease without a time to live was given")
	}
	renewed, err := f.Ledger.Renew(f.ctx(), l, 2*longEnough)
	f.must(err)
	if renewed.Fence != l.Fence || !renewed.ExpiresAt.After(l.ExpiresAt) || renewed.Remaining != 2*longEnough {
		f.t.Errorf("renewed %+v of %+v", renewed, l)
	}
	for name, wrong := range map[string]func(*fence.Lease){
		"owner":  func(l *fence.Lease) { l.Fence.Owner = "worker-2" },
		"number": func(l *fence.Lease) { l.Fence.Number++ },
		"epoch":  func(l *fence.Lease) { l.Fence.Epoch++ },
		"run":    func(l *fence.Lease) { l.RunID = newRunID() },
	} {
		bad := l
		wrong(&bad)
		if err := f.Ledger.VerifyLease(f.ctx(), bad); !errors.Is(err, fence.ErrLost) {
			f.t.Errorf("a lease with another %s verifies: %v", name, err)
		}
		if _, err := f.Ledger.Renew(f.ctx(), bad, time.Minute); !errors.Is(err, fence.ErrLost) && !errors.Is(err, fence.ErrNoRun) {
			f.t.Errorf("a lease with another %s is renewed: %v", name, err)
		}
		if err := f.Ledger.Release(f.ctx(), bad, fence.StatusReady); !errors.Is(err, fence.ErrLost) && !errors.Is(err, fence.ErrNoRun) {
			f.t.Errorf("a lease with another %s is released: %v", name, err)
		}
	}
	f.must(f.Ledger.Release(f.ctx(), l, fence.StatusReady))
	f.wants(f.Ledger.VerifyLease(f.ctx(), l), fence.ErrLost)
	again, err := f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: "worker-1", TTL: longEnough})
	f.must(err)
	if again.Fence.Number != 2 {
		f.t.Errorf("the second lease has number %d", again.Fence.Number)
	}
	f.wants(f.Ledger.VerifyLease(f.ctx(), l), fence.ErrLost)
	f.must(f.Ledger.Release(f.ctx(), again, fence.StatusCompleted))
	_, err = f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: "worker-1", TTL: longEnough})
	f.wants(err, fence.ErrEnded)
	r, err := f.Ledger.Run(f.ctx(), run)
	f.must(err)
	if r.Status != fence.StatusCompleted || r.Number != 2 || r.Retries != 0 {
		f.t.Errorf("the run ended as %+v", r)
	}
}

// endLease makes the run's lease expire long ago.
func (f *fixture) endLease(run string) {
	f.t.Helper()
	f.must(f.Exec(f.ctx(), "UPDATE agent_runs SET lease_expires_at = created_at WHERE id = "+quote(run)))
}

func leaseReclaim(f *fixture) {
	run, l := f.leased("worker-1")
	o := fence.AcquireOptions{Owner: "worker-2", TTL: longEnough, ClockAllowance: 1}
	_, err := f.Ledger.Acquire(f.ctx(), run, o)
	f.wants(err, fence.ErrHeld)
	f.endLease(run)
	year := o
	year.ClockAllowance = 365 * 24 * time.Hour
	_, err = f.Ledger.Acquire(f.ctx(), run, year)
	f.wants(err, fence.ErrHeld)
	second, err := f.Ledger.Acquire(f.ctx(), run, o)
	f.must(err)
	if second.Fence.Number <= l.Fence.Number || second.Fence.Owner != "worker-2" {
		f.t.Errorf("reclaimed as %+v after %+v", second, l)
	}
	f.wants(f.Ledger.VerifyLease(f.ctx(), l), fence.ErrLost)
	f.must(f.Ledger.VerifyLease(f.ctx(), second))
	if r, err := f.Ledger.Run(f.ctx(), run); err != nil || r.Retries != 1 || r.Owner != "worker-2" {
		f.t.Errorf("after a reclaim: %+v, %v", r, err)
	}
}

func leaseExpired(f *fixture) {
	run, l := f.leased("worker-1")
	f.endLease(run)
	f.wants(f.Ledger.VerifyLease(f.ctx(), l), fence.ErrLost)
	_, err := f.Ledger.Renew(f.ctx(), l, time.Minute)
	f.wants(err, fence.ErrLost)
	f.run = run
	_, err = f.tryClaim(f.newClaim(lease(l)))
	f.wants(err, fence.ErrLost)
}

func leaseCeiling(f *fixture) {
	run, _ := f.leased("worker-0")
	o := fence.AcquireOptions{TTL: longEnough, ClockAllowance: 1, ReclaimCeiling: 2}
	for n := 1; n <= 2; n++ {
		f.endLease(run)
		o.Owner = fmt.Sprintf("worker-%d", n)
		_, err := f.Ledger.Acquire(f.ctx(), run, o)
		f.must(err)
	}
	f.endLease(run)
	_, err := f.Ledger.Acquire(f.ctx(), run, o)
	f.wants(err, fence.ErrQuarantined)
	_, err = f.Ledger.Acquire(f.ctx(), run, o)
	f.wants(err, fence.ErrQuarantined)
	if r, err := f.Ledger.Run(f.ctx(), run); err != nil || r.Status != fence.StatusQuarantined {
		f.t.Errorf("past its ceiling the run is %+v, %v", r, err)
	}
}

func leaseRace(f *fixture) {
	run, _ := f.leased("worker-0")
	f.endLease(run)
	var group sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		group.Go(func() {
			_, errs[n] = f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: fmt.Sprintf("racer-%d", n), TTL: longEnough, ClockAllowance: 1})
		})
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, fence.ErrHeld) {
			f.t.Errorf("a loser got %v", err)
		}
	}
	if won != 1 {
		f.t.Errorf("%d of four took the lease", won)
	}
}

func leaseClaims(f *fixture) {
	run, l := f.leased("worker-1")
	f.run = run
	k := f.claim(lease(l))
	if i := f.read(k); i.RunNumber != l.Fence.Number {
		f.t.Errorf("claimed under number %d, want %d", i.RunNumber, l.Fence.Number)
	}
	_, err := f.tryClaim(f.newClaim())
	f.namesField(err, "lease")
	_, err = f.tryClaim(f.newClaim(lease(l)), f.newClaim())
	f.namesField(err, "lease")
	wrong := l
	wrong.Fence.Number++
	own := f.newClaim()
	own.RunID = newRunID()
	_, err = f.tryClaim(own, f.newClaim(lease(wrong))) // the one without a lease is of a run that nobody holds
	f.wants(err, fence.ErrLost)
	_, _, err = f.Ledger.BeginGuard(f.ctx(), ledger.GuardRequest{RunID: run, Key: "guard-" + uuid.NewString(), Owner: "worker-1", TTL: longEnough})
	f.namesField(err, "lease")
	f.endLease(run)
	second, err := f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: "worker-2", TTL: longEnough, ClockAllowance: 1})
	f.must(err)
	c := f.newClaim(lease(l))
	_, err = f.tryClaim(c)
	f.wants(err, fence.ErrLost)
	if _, _, err := f.Ledger.Intent(f.ctx(), ledger.Key{RunID: run, EffectKey: c.EffectKey}); !errors.Is(err, ledger.ErrNoIntent) {
		f.t.Errorf("a reclaimed worker's claim is there: %v", err)
	}
	f.claim(lease(second))
	if n := len(f.fence(5).Dispatches); n != 2 {
		f.t.Errorf("%d were dispatched, want what was validly claimed, whatever became of the lease", n)
	}
	other := second
	other.RunID = newRunID()
	_, err = f.tryClaim(f.newClaim(func(c *ledger.Claim) { c.Lease = &other }))
	f.namesField(err, "lease")
}

func leasePlainSQL(f *fixture) {
	run, l := f.leased("worker-1")
	insert := func(number int64) error {
		return f.Exec(f.ctx(), fmt.Sprintf(
			"INSERT INTO effect_intents (run_id, effect_key, channel, payload, payload_digest, kind, run_epoch) VALUES (%s, %s, %s, '{}', %s, 'mail', %d)",
			quote(run), quote("mail:"+uuid.NewString()), quote(f.channel), quote("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"), number))
	}
	for _, number := range []int64{0, l.Fence.Number - 1, l.Fence.Number + 1} {
		if insert(number) == nil {
			f.t.Errorf("an insert for a leased run under number %d was taken, the lease has %d", number, l.Fence.Number)
		}
	}
	f.must(insert(l.Fence.Number))
}

func reclaimDead(f *fixture) {
	expired, _ := f.leased("worker-1")
	alive, _ := f.leased("worker-2")
	instance := "engine-" + uuid.NewString()
	f.must(f.Ledger.Heartbeat(f.ctx(), fence.Instance{ID: instance, Host: "h", Process: 1, Version: "1", StartedAt: f.now()}))
	orphan, _ := f.leased(instance)
	f.endLease(expired)
	f.silence(instance)
	o := fence.ReclaimOptions{ClockAllowance: 1}
	reclaimed := func(o fence.ReclaimOptions) map[string]fence.Run {
		runs, err := f.Ledger.ReclaimDead(f.ctx(), o)
		f.must(err)
		all := map[string]fence.Run{}
		for _, r := range runs {
			all[r.ID] = r
		}
		return all
	}
	got := reclaimed(o)
	if r := got[expired]; r.Status != fence.StatusReady || r.Retries != 1 {
		f.t.Errorf("a dead lease was reclaimed as %+v", r)
	}
	if got[alive].ID != "" || got[orphan].ID != "" {
		f.t.Errorf("by expiry alone these were reclaimed: %v", got)
	}
	o.HeartbeatTimeout = time.Minute
	got = reclaimed(o)
	if r := got[orphan]; r.Status != fence.StatusReady || got[alive].ID != "" {
		f.t.Errorf("the run of a dead instance: %+v of %v", r, got)
	}
	if r, err := f.Ledger.Run(f.ctx(), alive); err != nil || r.Status == fence.StatusReady {
		f.t.Errorf("a live lease was reclaimed: %+v, %v", r, err)
	}
	again, err := f.Ledger.Acquire(f.ctx(), expired, fence.AcquireOptions{Owner: "worker-3", TTL: longEnough})
	f.must(err)
	if again.Fence.Number < 2 {
		f.t.Errorf("after a reclaim the number is %d", again.Fence.Number)
	}
	poison, _ := f.leased("worker-4")
	for range 2 {
		f.endLease(poison)
		o := fence.ReclaimOptions{ClockAllowance: 1, ReclaimCeiling: 1, Limit: 10}
		r := reclaimed(o)[poison]
		if r.Status == fence.StatusQuarantined {
			return
		}
		_, err := f.Ledger.Acquire(f.ctx(), poison, fence.AcquireOptions{Owner: "worker-4", TTL: longEnough})
		f.must(err)
	}
	f.t.Error("a run that kills its workers is never quarantined")
}

func heartbeats(f *fixture) {
	started := f.now().Truncate(time.Millisecond)
	i := fence.Instance{ID: "engine-" + uuid.NewString(), Host: "host", Process: 42, Version: "1.2.3", StartedAt: started}
	f.must(f.Ledger.Heartbeat(f.ctx(), i))
	find := func() fence.Instance {
		all, err := f.Ledger.Instances(f.ctx())
		f.must(err)
		for _, x := range all {
			if x.ID == i.ID {
				return x
			}
		}
		f.t.Fatal("the instance is not there")
		return fence.Instance{}
	}
	got := find()
	if got.Host != i.Host || got.Process != 42 || got.Version != i.Version || !got.StartedAt.Equal(started) || !got.StoppedAt.IsZero() ||
		got.LastSeen.IsZero() || got.Age < 0 || got.Age > time.Minute {
		f.t.Errorf("instance is %+v, want %+v", got, i)
	}
	f.silence(i.ID)
	if got := find(); got.Age < 59*time.Minute {
		f.t.Errorf("an instance silent for an hour has age %s", got.Age)
	}
	f.must(f.Ledger.Heartbeat(f.ctx(), i))
	if got := find(); got.Age > time.Minute {
		f.t.Errorf("a heartbeat left age %s", got.Age)
	}
	i.StoppedAt = f.now()
	f.must(f.Ledger.Heartbeat(f.ctx(), i))
	if got := find(); got.StoppedAt.IsZero() {
		f.t.Error("a graceful stop was not kept")
	}
}

func cancelRun(f *fixture) {
	run, l := f.leased("worker-1")
	f.run = run
	unsent, fenced, stamped, done := f.claim(lease(l)), f.claim(lease(l)), f.claim(lease(l)), f.claim(lease(l))
	i := f.stamped(stamped)
	d := f.fenced(fenced)
	f.committed(done)
	other := f.claim(func(c *ledger.Claim) { c.RunID = newRunID() })
	f.must(f.Ledger.CancelRun(f.ctx(), run, "ann", "customer left"))
	if got := f.is(unsent, ledger.StateAbandoned); got.AbandonedAs != ledger.NeverSent {
		f.t.Errorf("an unsent intent of a cancelled run ended as %s", got.AbandonedAs)
	}
	f.is(done, ledger.StateCommitted)
	f.is(other, ledger.StateIntent)
	f.move(stamped, sentAs(i, uuid.NewString()))
	f.move(fenced, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
	f.is(fenced, ledger.StateAbandoned)
	f.wants(f.Ledger.VerifyLease(f.ctx(), l), fence.ErrLost)
	_, err := f.Ledger.Acquire(f.ctx(), run, fence.AcquireOptions{Owner: "worker-2", TTL: longEnough})
	f.wants(err, fence.ErrEnded)
	r, err := f.Ledger.Run(f.ctx(), run)
	f.must(err)
	if r.Status != fence.StatusCancelled {
		f.t.Errorf("the run is %s", r.Status)
	}
	f.wants(f.Ledger.CancelRun(f.ctx(), newRunID(), "ann", ""), fence.ErrNoRun)
}
