package core_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// frail is a signer that can be out of order.
type frail struct {
	ledger.Signer
	fault atomic.Pointer[func() error]
	asked atomic.Int64
}

func (f *frail) Issue(e receipt.Effect) (receipt.Receipt, error) {
	f.asked.Add(1)
	if fault := f.fault.Load(); fault != nil {
		return receipt.Receipt{}, (*fault)()
	}
	return f.Signer.Issue(e)
}

// TestSignerOutOfOrderBlocksNothing: the move stands, the receipt is owed, and is paid when the signer is mended.
func TestSignerOutOfOrderBlocksNothing(t *testing.T) {
	for name, fault := range map[string]func() error{
		"fails":  func() error { return errors.New("the key is not there today") },
		"panics": func() error { panic("no key") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var signer *frail
			b := newBenchSigned(t, newWorld(exactSheet), func(s ledger.Signer) ledger.Signer {
				signer = &frail{Signer: s}
				return signer
			})
			signer.fault.Store(&fault)
			e := b.engine(func(o *core.Options, _ *core.ChannelOptions) { o.OwedEvery = 10 * time.Millisecond })
			b.start(e)
			k := b.claimed(e, b.claim("effect"))
			if i := b.ended(e, k); i.State != ledger.StateCommitted {
				t.Fatalf("got %s", i.Outcome())
			}
			stats, err := b.ledger.Stats(t.Context())
			if err != nil || stats.OwedReceipts != 1 {
				t.Fatalf("%d receipts owed, %v; want one", stats.OwedReceipts, err)
			}
			for before := signer.asked.Load(); signer.asked.Load() < before+2; { // it is tried again, and nothing stops
				time.Sleep(2 * time.Millisecond)
			}
			signer.fault.Store(nil)
			for deadline := time.Now().Add(slowness * 15 * time.Second); stats.OwedReceipts > 0; {
				if time.Now().After(deadline) {
					t.Fatal("still owed")
				}
				if stats, err = b.ledger.Stats(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			b.wantReceipt(k, receipt.Committed)
			if all, err := b.ledger.ReceiptsOf(t.Context(), k); err != nil || len(all) != 1 {
				t.Fatalf("%d receipts, %v; want one", len(all), err)
			}
		})
	}
}

// TestOwedReceiptsArePaidByHand is what an operator's command does.
func TestOwedReceiptsArePaidByHand(t *testing.T) {
	t.Parallel()
	var signer *frail
	b := newBenchSigned(t, newWorld(exactSheet), func(s ledger.Signer) ledger.Signer {
		signer = &frail{Signer: s}
		return signer
	})
	fault := func() error { return errors.New("no key") }
	signer.fault.Store(&fault)
	e := b.engine()
	var keys []ledger.Key
	for _, name := range []string{"a", "b", "c"} {
		o, err := e.Do(inTime(t), b.claim(name))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Intent.Key)
	}
	for _, want := range []struct {
		mended     bool
		limit      int
		paid, owed int
	}{{false, 10, 0, 3}, {true, 2, 2, 1}, {true, 2, 1, 0}, {true, 2, 0, 0}} {
		if want.mended {
			signer.fault.Store(nil)
		}
		if paid, owed, err := b.ledger.PayReceipts(t.Context(), want.limit); err != nil || paid != want.paid || owed != want.owed {
			t.Fatalf("paid %d, owed %d, %v; want %d and %d", paid, owed, err, want.paid, want.owed)
		}
	}
	for _, k := range keys {
		b.wantReceipt(k, receipt.Committed)
	}
}
