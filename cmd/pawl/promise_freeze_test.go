package main_test

import (
	"testing"
	"time"

	"github.com/pawlworks/pawl/conformance/world/proxy"
	"github.com/pawlworks/pawl/ledger"
)

// patient leaves time, after a fence is dead, in which its engine still waits for the answer: twice the send time-out in all.
func patient(policy, _ map[string]any) { policy["send_timeout"], policy["fence_ttl"] = "8s", "9500ms" }

// lazy makes an engine that looks for work so rarely that another one takes what it gives back.
func lazy(_, times map[string]any) { times["poll_every"] = "20s" }

// frozen is a scene in which an engine's adapter, or engine and adapter, stand still at one line of the conversation, and a
// second engine is up.
type frozen struct {
	*scene
	office        *office
	held          *heldLine
	connection    int
	key           ledger.Key
	stamped       ledger.Intent
	first, second *engine
	adapter       int
}

// freezeAt lets the first engine send a mail up to the line, freezes the processes and passes the line on: it waits in the
// socket for whoever wakes up.
func freezeAt(t *testing.T, backend string, point proxy.Point, engineToo bool, change, changeSecond func(policy, times map[string]any)) *frozen {
	t.Helper()
	o := newOffice(t, 2*time.Minute) // the server would take a late mail
	f := &frozen{scene: newMailScene(t, backend, o, time.Second), office: o}
	f.held = o.holdNext(point, true)
	f.first = f.engine("e1", func(policy, times map[string]any) {
		lazy(policy, times)
		if change != nil {
			change(policy, times)
		}
	})
	// It looks for work once when it starts, and then rarely.
	f.first.kill(true)
	f.key = f.claimMail("frozen")
	f.first.start()
	f.first.awaitUp()
	f.adapter = f.first.theAdapter()
	f.connection = f.held.await(t)
	f.stamped = f.await(f.key, "is stamped", ledger.Intent.Stamped)
	// The second engine first: on one file, a writer that is frozen in the middle of a write keeps everybody out.
	f.second = f.engine("e2", changeSecond)
	f.freeze(f.adapter)
	if engineToo {
		f.freeze(f.first.pid)
	}
	f.held.let()
	return f
}

// thawAll lets everything go on.
func (f *frozen) thawAll(engineToo bool) {
	f.t.Helper()
	if engineToo {
		f.thaw(f.first.pid)
	}
	f.thaw(f.adapter)
}

// sentByTheSecond requires that the second engine sent and that nothing came from the frozen connection.
func (f *frozen) sentByTheSecond(engineToo bool) {
	f.t.Helper()
	i := f.await(f.key, "is sent by the second engine", committed)
	if i.Attempts < 2 || i.FenceNumber <= f.stamped.FenceNumber {
		f.t.Errorf("committed after %d attempts under fence %d: nobody took over", i.Attempts, i.FenceNumber)
	}
	f.thawAll(engineToo)
	f.office.awaitIdle(f.scene)
	if n := f.office.dotsOf(f.connection); n != 0 {
		f.t.Errorf("the frozen sender wrote %d final dots after its fence was gone", n)
	}
	f.office.oneMail("frozen")
	f.verifyReceipt(f.key)
}

// foundByTheSecond requires that the second engine found the mail, and that the answer that comes late changes nothing.
func (f *frozen) foundByTheSecond(engineToo bool) {
	f.t.Helper()
	found := f.await(f.key, "is found by the second engine", committed)
	if found.Attempts != 1 || found.Established != ledger.ByProbe {
		f.t.Errorf("committed after %d attempts, established %q, want one, by probe", found.Attempts, found.Established)
	}
	f.thawAll(engineToo)
	f.office.awaitIdle(f.scene)
	f.first.stopInOrder() // whatever it had to say is written now
	i, _, err := f.ledger.Intent(f.ctx, f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	if i.State != ledger.StateCommitted || i.Attempts != 1 || i.Outcome() != "committed" {
		f.t.Errorf("after the late answer: %s, %d attempts", i.Outcome(), i.Attempts)
	}
	f.office.oneMail("frozen")
	f.verifyReceipt(f.key)
}

func TestAnAdapterThatStoodStillBeforeBeginSendsNothingWhenItWakesUpAfterItsTime(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			freezeAt(t, backend, proxy.Data, false, nil, nil).sentByTheSecond(false)
		})
	}
}

func TestAnEngineAndItsAdapterThatStoodStillBeforeBeginSendNothingWhenTheyWakeUpAfterTheirTime(t *testing.T) {
	t.Parallel()
	freezeAt(t, "postgres", proxy.Data, true, nil, nil).sentByTheSecond(true)
}

func TestAnAdapterThatStoodStillAfterTheFinalDotIsAnsweredForByAProbe(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			freezeAt(t, backend, proxy.Dot, false, nil, nil).foundByTheSecond(false)
		})
	}
}

func TestAnEngineAndItsAdapterThatStoodStillAfterTheFinalDotAreAnsweredForByAProbe(t *testing.T) {
	t.Parallel()
	freezeAt(t, "postgres", proxy.Dot, true, nil, nil).foundByTheSecond(true)
}

// The second engine cannot ask and holds the mail; the answer that the first one gets when it wakes up is late evidence.
func TestTheAnswerThatAnEngineGetsWhenItWakesUpSettlesWhatTheOthersHold(t *testing.T) {
	t.Parallel()
	f := freezeAt(t, "postgres", proxy.Dot, true, patient, func(policy, times map[string]any) {
		patient(policy, times)
		policy["no_probe"] = true
	})
	held := f.await(f.key, "is held by the second engine", ledger.Intent.Held)
	if held.FenceNumber <= f.stamped.FenceNumber {
		t.Errorf("held under fence %d: nobody took over", held.FenceNumber)
	}
	f.thawAll(true)
	i := f.await(f.key, "is committed by late evidence", committed)
	if i.Established != ledger.ByLate || i.Attempts != 1 {
		t.Errorf("committed after %d attempts, established %q, want one, by late evidence", i.Attempts, i.Established)
	}
	late, err := f.ledger.LateEvidence(f.ctx, f.key)
	if err != nil || len(late) != 1 || late[0].Outcome != ledger.LateSent {
		t.Errorf("late evidence is %+v, %v", late, err)
	}
	f.office.awaitIdle(f.scene)
	f.office.oneMail("frozen")
	f.verifyReceipt(f.key)
}

// The second engine found the mail; the first one wakes up in time to read its own answer and hands the same evidence in.
func TestTheAnswerThatAnEngineGetsWhenItWakesUpIsNoNewsWhereAProbeFoundTheSame(t *testing.T) {
	t.Parallel()
	f := freezeAt(t, "postgres", proxy.Dot, true, patient, patient)
	f.foundByTheSecond(true)
	late, err := f.ledger.LateEvidence(f.ctx, f.key)
	if err != nil || len(late) != 1 || late[0].Outcome != ledger.LateSent {
		t.Errorf("late evidence is %+v, %v: the answer was not kept", late, err)
	}
	if f.first.logged("effect.alarm") {
		t.Error("one mail, found and answered for, raised an alarm")
	}
}
