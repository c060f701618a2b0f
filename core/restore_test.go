package core_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// backup copies the ledger as it is now and returns the copy's path.
func (b *bench) backup() string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "backup.db")
	db, err := sql.Open("sqlite", "file:"+b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	if _, err := db.Exec("VACUUM INTO ?", path); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// restore goes on with the backup, in a new epoch.
func (b *bench) restore(path string, horizon time.Duration) {
	b.t.Helper()
	b.path = path
	b.ledger = b.open()
	_, err := b.ledger.OpenEpoch(b.t.Context(), ledger.OpenEpoch{By: "Ann", Reason: "restored a backup", From: 1, Horizon: horizon})
	if err != nil {
		b.t.Fatal(err)
	}
}

// restored is a bench that sent two effects, was set back to when the first one waited and the second was not claimed, and is claimed the
// second one and a new one.
func restored(t *testing.T, w *world) (b *bench, e *core.Engine, waited, lost, fresh ledger.Key) {
	b = newBench(t, w)
	e = b.engine()
	waited = b.claimed(e, b.claim("waited"))
	copied := b.backup()
	stop := b.start(e)
	lost = b.claimed(e, b.claim("lost"))
	for _, k := range []ledger.Key{waited, lost} {
		if i := b.ended(e, k); i.State != ledger.StateCommitted {
			t.Fatalf("before the restore %s is %s", k, i.Outcome())
		}
	}
	stop()
	b.restore(copied, time.Hour)
	e = b.engine()
	lost = b.claimed(e, b.claim("lost")) // its caller asks again
	fresh = b.claimed(e, b.claim("fresh"))
	b.start(e)
	return b, e, waited, lost, fresh
}

func TestARestoredLedgerSendsNothingAgain(t *testing.T) {
	t.Parallel()
	b, e, waited, lost, fresh := restored(t, newWorld(exactSheet))
	for _, k := range []ledger.Key{waited, lost} {
		if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Established != ledger.ByProbe || i.Attempts != 0 {
			t.Errorf("%s is %s by %s after %d attempts", k, i.Outcome(), i.Established, i.Attempts)
		}
		b.wantEffects(k.EffectKey, 1)
		b.wantReceipt(k, receipt.Committed)
	}
	i := b.ended(e, fresh)
	if i.State != ledger.StateCommitted || i.Established != ledger.BySend || i.Attempts != 1 {
		t.Errorf("what was never sent is %s by %s", i.Outcome(), i.Established)
	}
	b.wantEffects(fresh.EffectKey, 1)
	epochs, err := b.ledger.Epochs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if opened := epochs[1].OpenedAt; i.SendStartedAt.Before(opened.Add(quick().FenceTTL)) {
		t.Errorf("it was sent %s after the opening: a fence of the life before may have lasted %s", i.SendStartedAt.Sub(opened), quick().FenceTTL)
	}
}

func TestARestoredLedgerHoldsWhatNobodyCanFindOut(t *testing.T) {
	t.Parallel()
	allocated := exactSheet
	allocated.Token = channel.TokenAllocated
	blind := channel.Sheet{Kind: "test", Token: channel.TokenDerived, Begin: true}
	for name, sheet := range map[string]channel.Sheet{"its token may be lost": allocated, "the channel cannot be asked": blind} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(sheet)
			w.probe = func(a channel.Attempt) (channel.Finding, error) {
				if len(a.Tokens) == 0 { // it looks for the token
					return channel.AbsentForGood("no such token"), nil
				}
				return channel.SentFinding(channel.MatchExact, channel.Evidence{ID: "id-" + a.Intent.EffectKey}), nil
			}
			b, e, waited, lost, fresh := restored(t, w)
			for _, k := range []ledger.Key{waited, lost, fresh} {
				if i := b.ended(e, k); !i.Held() || i.Attempts != 0 {
					t.Errorf("%s is %s (%s) after %d attempts", k, i.Outcome(), i.HoldReason, i.Attempts)
				}
			}
			b.wantEffects(waited.EffectKey, 1)
			b.wantEffects(lost.EffectKey, 1)
			b.wantEffects(fresh.EffectKey, 0)
		})
	}
}

func TestARestoredLedgerFindsByContentWhatItsTokenIsLostOf(t *testing.T) {
	t.Parallel()
	sheet := exactSheet
	sheet.Token, sheet.FindsWithoutToken = channel.TokenAllocated, true
	b, e, waited, lost, fresh := restored(t, newWorld(sheet))
	for _, k := range []ledger.Key{waited, lost, fresh} {
		if i := b.ended(e, k); i.State != ledger.StateCommitted {
			t.Errorf("%s is %s: %s", k, i.Outcome(), i.HoldReason)
		}
		b.wantEffects(k.EffectKey, 1)
	}
}

func TestARestoredLedgerSendsTheSameBytesAgainWhereThatIsHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(channel.Sheet{Kind: "test", Token: channel.TokenDerived, Replay: channel.ReplayForEver, Begin: true})
	seen := map[string]bool{}
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		w.mu.Lock()
		token := string(a.Token().Data)
		known := seen[token]
		seen[token] = true
		w.mu.Unlock()
		if !known {
			w.happen(a.Intent.EffectKey)
		}
		return channel.Delivered(channel.Evidence{ID: token}), nil
	}
	b, e, waited, lost, fresh := restored(t, w)
	for _, k := range []ledger.Key{waited, lost, fresh} {
		if i := b.ended(e, k); i.State != ledger.StateCommitted || i.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts", k, i.Outcome(), i.Attempts)
		}
		b.wantEffects(k.EffectKey, 1)
	}
}

func TestAnEngineThatLivesThroughANewEpochHandsInWhatItKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(exactSheet)
	sending, release := make(chan struct{}), make(chan struct{})
	w.send = func(a channel.Attempt, _ int) (channel.Outcome, error) {
		close(sending)
		<-release
		w.happen(a.Intent.EffectKey)
		return channel.Delivered(channel.Evidence{ID: "sent"}), nil
	}
	b := newBench(t, w)
	e := b.engine()
	b.start(e)
	k := b.claimed(e, b.claim("effect"))
	<-sending
	if _, err := b.ledger.OpenEpoch(t.Context(), ledger.OpenEpoch{By: "Ann", Reason: "a failover lost commits", From: 1}); err != nil {
		t.Fatal(err)
	}
	close(release)
	i := b.ended(e, k)
	if i.State != ledger.StateCommitted || i.Established != ledger.ByLate || i.LedgerEpoch != 2 {
		t.Errorf("it is %s by %s under %s", i.Outcome(), i.Established, i.Fence())
	}
	b.wantEffects(k.EffectKey, 1)
	w.send = nil
	next := b.claimed(e, b.claim("next"))
	if i := b.ended(e, next); i.State != ledger.StateCommitted || i.LedgerEpoch != 2 {
		t.Errorf("the next one is %s under %s", i.Outcome(), i.Fence())
	}
}
