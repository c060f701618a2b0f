package core_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// TestScanMendsAQueueThatWasEmptied: the queue only hints; what waits and what is in doubt are found again.
func TestScanMendsAQueueThatWasEmptied(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		return channel.Outcome{}, errors.New("lost")
	}
	b := newBench(t, w)
	var o observed
	e := b.engine(o.option(t), named("one"), func(o *core.Options, _ *core.ChannelOptions) { o.ScanEvery = 20 * time.Millisecond })
	waits := b.claimed(e, b.claim("waits", func(c *ledger.Claim) { c.DueAt = time.Now().Add(slowness * time.Second) }))
	doubtful := b.claimed(e, b.claim("in doubt"))
	b.stampedAndDead(doubtful)
	db, err := sql.Open("sqlite", "file:"+b.path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	gone, err := db.Exec("DELETE FROM dispatch_queue")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := gone.RowsAffected(); err != nil || n != 2 {
		t.Fatalf("%d rows were queued, %v; want 2", n, err)
	}
	b.start(e)
	for _, k := range []ledger.Key{waits, doubtful} {
		if i := b.ended(e, k); i.Established != ledger.ByProbe {
			t.Errorf("%s: %s by %s", k.EffectKey, i.Outcome(), i.Established)
		}
		b.wantEffects(k.EffectKey, 1)
	}
	if !strings.Contains(o.log.text(), core.EventQueueMended) {
		t.Error("nobody is told that the queue was mended")
	}
}

// stampedAndDead stamps an intent for an engine that then dies; the effect is there.
func (b *bench) stampedAndDead(k ledger.Key) {
	b.t.Helper()
	r, err := b.ledger.Fence(b.t.Context(), ledger.FenceRequest{Fence: ledger.Fence{Owner: "gone", TTL: slowness * 300 * time.Millisecond}, Channel: "test/one", Limit: 1, Only: &k})
	if err != nil || len(r.Dispatches) != 1 {
		b.t.Fatalf("fence: %+v, %v", r, err)
	}
	if _, err := b.ledger.Move(b.t.Context(), k, ledger.Stamp{
		Fence: r.Dispatches[0].Intent.Fence(), Token: &channel.Token{Version: 1, Data: []byte(k.EffectKey)}, Sheet: b.world.sheet,
		SendTimeout: time.Millisecond, CommitBound: time.Millisecond, Margin: time.Millisecond,
	}); err != nil {
		b.t.Fatal(err)
	}
	b.world.happen(k.EffectKey)
}

// TestTwoDeliveriesOfOneIntentRaiseAnAlarm has a policy that accepts duplicates, and gets one: it is kept, and said aloud.
func TestTwoDeliveriesOfOneIntentRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(channel.Sheet{Kind: "test", Begin: true})
	first, second, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.send = func(a channel.Attempt, n int) (channel.Outcome, error) {
		w.happen(a.Intent.EffectKey)
		if n == 1 {
			close(first)
			<-release
			return channel.Delivered(channel.Evidence{ID: "first"}), nil
		}
		close(second)
		return channel.Delivered(channel.Evidence{ID: "second"}), nil
	}
	b := newBench(t, w)
	resend := withPolicy(func(p *core.Policy) {
		p.Unknown, p.AcceptDuplicates = core.UnknownResend, core.DuplicatesAcceptable
	})
	var o observed
	slow := b.engine(named("one"), o.option(t), resend)
	stop := b.start(slow)
	k := b.claimed(slow, b.claim("effect"))
	<-first
	other := b.engine(named("two"), resend)
	b.start(other)
	<-second
	b.until(k, "committed", func(i ledger.Intent) bool { return i.State == ledger.StateCommitted })
	close(release)
	stop()
	i, _, err := b.ledger.Intent(t.Context(), k)
	if err != nil || ledger.EvidenceID(i.Evidence) != "second" || ledger.EvidenceID(i.LateEvidence) != "first" {
		t.Fatalf("evidence %s, late %s, %v", i.Evidence, i.LateEvidence, err)
	}
	if !strings.Contains(o.log.text(), core.EventAlarm) {
		t.Error("no alarm")
	}
	b.wantReceipt(k, receipt.Late)
}
