package postgres_test

import (
	"testing"

	"github.com/pawlworks/pawl/ledger"
)

func TestAnEffectGoesFromClaimToReceipt(t *testing.T) {
	l, _ := open(t)
	c := newClaim("mail:welcome:a")
	c.Lane = "a"
	first := claim(t, l, c)[0]
	if first.Status != ledger.ClaimNew || first.Intent.LanePosition != 1 {
		t.Fatalf("claim: %+v", first)
	}
	if again := claim(t, l, c)[0]; again.Status != ledger.ClaimDeduplicated {
		t.Fatalf("second claim: %s", again.Status)
	}
	batch := take(t, l, 10)
	if len(batch.Dispatches) != 1 {
		t.Fatalf("fence: %+v", batch)
	}
	done := send(t, l, batch.Dispatches[0])
	if done.Intent.State != ledger.StateCommitted {
		t.Fatalf("commit: %+v", done.Intent)
	}
	stored, tokens, err := l.Intent(t.Context(), first.Key)
	if err != nil || len(tokens) != 1 || stored.State != ledger.StateCommitted {
		t.Fatalf("stored: %+v, %d tokens, %v", stored, len(tokens), err)
	}
	log, err := l.Log(t.Context(), first.Key)
	if err != nil || len(log) != 3 {
		t.Fatalf("log: %+v, %v", log, err)
	}
	receipts, err := l.ReceiptsOf(t.Context(), first.Key)
	if err != nil || len(receipts) != 1 || receipts[0].Owed {
		t.Fatalf("receipts: %+v, %v", receipts, err)
	}
	st, err := l.Stats(t.Context())
	if err != nil || st.Committed != 1 || st.Waiting+st.Dispatched != 0 {
		t.Fatalf("stats: %+v, %v", st, err)
	}
}
