package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func lookTopic() topic {
	return topic{"probing fence, looks and persons", []testCase{
		{name: "a live fence is not taken, a dead one is", run: probeDead},
		{name: "a missed heartbeat takes early only what it may", run: probeHeartbeat},
		{name: "what an instance left that is not seen any more is named early, and nothing else", run: looksSilent},
		{name: "the number that was shown must still be the row's", run: probeNumber},
		{name: "a person takes from another look, never from a sender", run: probePerson},
		{name: "a look that settled nothing counts and gives the fence back", run: probedCounts},
		{name: "an ambiguous answer gives the fence back with the stamp", run: ambiguousGivesBack},
		{name: "looks come due oldest first, of the named channels, up to the limit", run: looksDue},
		{name: "each decision of a person does what it says", run: resolveDecisions},
		{name: "a decision needs a probing fence, a name and a reason", run: resolveNeeds},
	}}
}

func probeDead(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	_, err := f.try(k, probeFence())
	f.wants(err, ledger.ErrFenceAlive)
	f.endFence(k)
	year := probeFence()
	year.ClockAllowance = 365 * 24 * time.Hour
	_, err = f.try(k, year)
	f.wants(err, ledger.ErrFenceAlive)
	r := f.move(k, probeFence())
	p := r.Intent
	if p.FenceNumber <= i.FenceNumber || p.FenceOwner != reconciler || !p.Probing || p.Starts != i.Starts || !p.SendStartedAt.Equal(i.SendStartedAt) ||
		!p.LastPossibleSend.Equal(i.LastPossibleSend) {
		f.t.Errorf("a probing fence made %+v of %+v", p, i)
	}
	if r.Remaining != longEnough || len(r.Tokens) != 1 {
		f.t.Errorf("it lasts %s and brings %d tokens", r.Remaining, len(r.Tokens))
	}
	_, err = f.try(k, probeFence())
	f.wants(err, ledger.ErrFenceAlive)
	_, err = f.try(f.claim(), probeFence())
	f.refused(err, "nothing-to-probe")
	done := f.claim()
	f.committed(done)
	_, err = f.try(done, probeFence())
	f.wants(err, ledger.ErrTerminal)
}

func probeHeartbeat(f *fixture) {
	owner := func(name string) func(*ledger.FenceRequest) { return func(r *ledger.FenceRequest) { r.Owner = name } }
	early := probeFence()
	early.HeartbeatTimeout = time.Minute
	for name, c := range map[string]struct {
		sheet channel.Sheet
		stamp bool
		takes bool
	}{
		"unstamped": {blindSheet(), false, true}, "stamped, replay-safe": {replaySheet(), true, true},
		"stamped, exact": {exactSheet(), true, true}, "stamped, nobody to ask": {blindSheet(), true, false},
	} {
		f.use(c.sheet)
		instance := "engine-" + uuid.NewString()
		f.must(f.Ledger.Heartbeat(f.ctx(), fence.Instance{ID: instance, Host: "h", Process: 1, Version: "1", StartedAt: f.now()}))
		k := f.claim()
		d := f.fence(1, owner(instance)).Dispatches[0]
		if c.stamp {
			f.move(k, f.stamp(d.Intent))
		}
		_, err := f.try(k, early)
		f.wants(err, ledger.ErrFenceAlive)
		f.silence(instance)
		if _, err := f.try(k, early); (err == nil) != c.takes {
			f.t.Errorf("%s: taken early: %v", name, err)
		}
	}
	k := f.claim()
	f.fence(1, owner("never-heard-of"))
	_, err := f.try(k, early)
	f.wants(err, ledger.ErrFenceAlive)
}

// silence makes the instance's last heartbeat an hour old.
func (f *fixture) silence(instance string) {
	f.t.Helper()
	ago := "last_seen - interval '1 hour'"
	if f.Dialect == SQLite {
		ago = f.hourAgo("last_seen")
	}
	f.must(f.Exec(f.ctx(), fmt.Sprintf("UPDATE engine_instances SET last_seen = %s WHERE id = %s", ago, quote(instance))))
}

// hourAgo is, on SQLite, an expression that is an hour before the column, whether times are stored as text or as numbers of microseconds.
func (f *fixture) hourAgo(column string) string {
	return fmt.Sprintf("CASE typeof(%[1]s) WHEN 'text' THEN strftime('%%Y-%%m-%%dT%%H:%%M:%%f000Z', %[1]s, '-1 hour') ELSE %[1]s - 3600000000 END", column)
}

func probeNumber(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.endFence(k)
	m := probeFence()
	m.Number = i.FenceNumber + 1
	_, err := f.try(k, m)
	f.wants(err, ledger.ErrNumberMoved)
	m.Number = i.FenceNumber
	p := f.move(k, m).Intent
	f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "look", Look: time.Hour})
	m.Number = p.FenceNumber // a hold has a number of its own
	_, err = f.try(k, m)
	f.wants(err, ledger.ErrNumberMoved)
}

func probePerson(f *fixture) {
	k := f.claim()
	f.stamped(k)
	person := ledger.ProbeFence{Owner: "ann", TTL: longEnough, Person: true, ClockAllowance: 1}
	_, err := f.try(k, person)
	f.wants(err, ledger.ErrFenceAlive)
	p := f.probing(k)
	taken := f.move(k, person).Intent
	if taken.FenceOwner != "ann" || taken.FenceNumber <= p.FenceNumber {
		f.t.Errorf("a person took %+v", taken)
	}
	_, err = f.try(k, ledger.Commit{Fence: p.Fence(), Evidence: channel.Evidence{ID: "x"}, Established: ledger.ByProbe})
	f.wants(err, ledger.ErrFenceLost)
}

func probedCounts(f *fixture) {
	k := f.claim()
	f.stamped(k)
	look := func(finding channel.FindingKind) ledger.Intent {
		p := f.move(k, probeFence()).Intent
		return f.move(k, ledger.Probed{Fence: p.Fence(), Finding: finding, ProbeBegan: f.now(), Look: time.Hour, Reason: "looked"}).Intent
	}
	f.endFence(k)
	for n, c := range []struct {
		finding channel.FindingKind
		unknown int
		absent  bool
	}{
		{channel.FindingUnknown, 1, false}, {channel.FindingUnknown, 2, false}, {channel.FindingAbsentNow, 0, true}, {channel.FindingAbsentNow, 0, true},
		{channel.FindingUnknown, 1, false}, {channel.FindingAbsentForGood, 2, false},
	} {
		look(c.finding)
		i := f.is(k, ledger.StateDispatched)
		if i.Probes != n+1 || i.Unknowns != c.unknown || i.AbsentSince.IsZero() == c.absent || i.FenceOwner != "" || !i.Stamped() || i.ProbeAt.IsZero() {
			f.t.Errorf("after look %d (%s): %d looks, %d unknown, absent since %s", n+1, c.finding, i.Probes, i.Unknowns, i.AbsentSince)
		}
	}
	if log := f.outcomes(k); log != "fenced unknown unknown absent_now absent_now unknown unknown" {
		f.t.Errorf("log is %q", log)
	}
}

func ambiguousGivesBack(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Ambiguous{Fence: i.Fence(), Look: 0, Reason: "the line went dead"})
	got := f.is(k, ledger.StateDispatched)
	if !got.Stamped() || got.FenceOwner != "" || got.LastError != "the line went dead" {
		f.t.Errorf("after an ambiguous answer: %+v", got)
	}
	p := f.move(k, probeFence()).Intent
	_, err := f.try(k, ledger.Reopen{Fence: p.Fence(), Proof: ledger.ProofAbsentForGood, ProbeBegan: i.SendStartedAt})
	f.refused(err, "no-settle-time")
}

func looksDue(f *fixture) {
	var keys []ledger.Key
	for range 4 {
		k := f.claim()
		i := f.stamped(k)
		f.move(k, ledger.Ambiguous{Fence: i.Fence(), Look: 0})
		keys = append(keys, k)
	}
	later := f.claim()
	f.move(later, ledger.Ambiguous{Fence: f.stamped(later).Fence(), Look: time.Hour})
	f.claim() // waits; it is not looked at
	first := f.channel
	f.use(exactSheet())
	other := f.claim()
	f.move(other, ledger.Ambiguous{Fence: f.stamped(other).Fence(), Look: 0})
	looks, err := f.Ledger.DueLooks(f.ctx(), []string{first}, 10)
	f.must(err)
	if !slices.Equal(looks, keys) {
		f.t.Errorf("looks are %v, want %v", looks, keys)
	}
	looks, err = f.Ledger.DueLooks(f.ctx(), []string{first, f.channel}, 3)
	f.must(err)
	if len(looks) != 3 {
		f.t.Errorf("%d looks, want the limit of 3", len(looks))
	}
	if looks, err := f.Ledger.DueLooks(f.ctx(), nil, 3); err != nil || len(looks) != 0 {
		f.t.Errorf("looks of no channel: %v, %v", looks, err)
	}
}

func resolveDecisions(f *fixture) {
	for as, want := range map[ledger.Decision]struct {
		state   ledger.State
		outcome string
	}{
		ledger.DecideSent: {ledger.StateCommitted, "committed"}, ledger.DecideNotSent: {ledger.StateAbandoned, "abandoned: never sent"},
		ledger.DecideRetry: {ledger.StateIntent, "in progress"}, ledger.DecideUnknown: {ledger.StateAbandoned, "unknown, do not retry"},
	} {
		k := f.claim()
		f.stamped(k)
		p := f.probing(k)
		f.move(k, ledger.Hold{Fence: p.Fence(), Reason: "look", Look: time.Hour})
		p = f.move(k, ledger.ProbeFence{Owner: "ann", TTL: longEnough, Person: true}).Intent
		r := f.move(k, ledger.Resolve{Fence: p.Fence(), As: as, By: "Ann", Reason: "called him"})
		got := f.is(k, want.state)
		if r.Intent.State != want.state || got.Outcome() != want.outcome || got.Held() {
			f.t.Errorf("%s: %q, held %v; want %q", as, got.Outcome(), got.Held(), want.outcome)
		}
		if want.state.Terminal() && (got.By != "Ann" || got.Established != ledger.ByPerson) {
			f.t.Errorf("%s: decided by %q, established by %s", as, got.By, got.Established)
		}
		if ledger.EvidenceID(got.Evidence) != "" {
			f.t.Errorf("%s: a person's word has evidence %s", as, got.Evidence)
		}
		if log, err := f.Ledger.Log(f.ctx(), k); err != nil || log[len(log)-1].Outcome != ledger.LogResolved {
			f.t.Errorf("%s: log is %v, %v", as, log, err)
		}
	}
}

func resolveNeeds(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	m := ledger.Resolve{Fence: i.Fence(), As: ledger.DecideSent, By: "Ann", Reason: "sure"}
	_, err := f.try(k, m)
	f.refused(err, "reconciler-unfenced")
	m.Fence = f.probing(k).Fence()
	for _, bad := range []ledger.Resolve{{As: m.As, By: "Ann"}, {As: m.As, Reason: "sure"}} {
		bad.Fence = m.Fence
		_, err = f.try(k, bad)
		f.refused(err, "person")
	}
	wrong := m
	wrong.As = "perhaps"
	_, err = f.try(k, wrong)
	f.refused(err, "decision")
	f.move(k, m)
}

func looksSilent(f *fixture) {
	beat := func(name string) string {
		instance := name + "-" + uuid.NewString()
		f.must(f.Ledger.Heartbeat(f.ctx(), fence.Instance{ID: instance, Host: "h", Process: 1, Version: "1", StartedAt: f.now()}))
		return instance
	}
	f.use(exactSheet())
	gone, here := beat("gone"), beat("here")
	f.claim()
	k := f.fence(1, func(r *ledger.FenceRequest) { r.Owner = gone }).Dispatches[0].Intent.Key
	f.claim()
	f.fence(1, func(r *ledger.FenceRequest) { r.Owner = here })
	f.claim() // nobody's
	silent := func(silence, ttl time.Duration) []ledger.Key {
		keys, err := f.Ledger.SilentLooks(f.ctx(), f.channel, silence, ttl, 10)
		f.must(err)
		return keys
	}
	if keys := silent(time.Minute, 24*time.Hour); len(keys) != 0 {
		f.t.Errorf("while everybody beats, %v are named", keys)
	}
	f.silence(gone) // an hour ago
	if keys := silent(time.Minute, 24*time.Hour); len(keys) != 1 || keys[0] != k {
		f.t.Errorf("named are %v, want %v", keys, k)
	}
	if keys := silent(time.Minute, time.Minute); len(keys) != 0 {
		f.t.Errorf("an owner that is silent for longer than any fence lives names %v", keys)
	}
	if keys, err := f.Ledger.SilentLooks(f.ctx(), "test/other", time.Minute, 24*time.Hour, 10); err != nil || len(keys) != 0 {
		f.t.Errorf("another channel has %v, %v", keys, err)
	}
}
