package postgres_test

import (
	"fmt"
	"testing"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/receipt"
)

// slowSigner waits before it signs, in the middle of a transaction.
type slowSigner struct {
	ledger.Signer
	signing, sign chan struct{}
}

func (s slowSigner) Issue(e receipt.Effect) (receipt.Receipt, error) {
	r, err := s.Signer.Issue(e)
	s.signing <- struct{}{}
	<-s.sign
	return r, err
}

// stamped claims, fences and stamps one intent.
func stamped(t *testing.T, l *postgres.Ledger, key string) ledger.Intent {
	t.Helper()
	claim(t, l, newClaim(key))
	d := take(t, l, 1).Dispatches[0]
	return move(t, l, d.Intent.Key, stampOf(d)).Intent
}

func delivered(i ledger.Intent) ledger.Commit {
	return ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: i.EffectKey}, Established: ledger.BySend}
}

func receiptPage(t *testing.T, l *postgres.Ledger, limit int, after ledger.Cursor) ([]string, ledger.Cursor) {
	t.Helper()
	page, next, err := l.ReceiptPage(t.Context(), ledger.ReceiptFilter{Limit: limit, After: after})
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(page))
	for n, r := range page {
		keys[n] = r.Key.EffectKey
	}
	return keys, next
}

// TestAReceiptThatCommitsLateIsNotPassedOver has a transaction that begins first and ends last.
func TestAReceiptThatCommitsLateIsNotPassedOver(t *testing.T) {
	l, url := open(t)
	slow := slowSigner{signer(t), make(chan struct{}), make(chan struct{})}
	other := openAt(t, url, func(o *postgres.Options) { o.Signer = slow })
	send(t, l, func() ledger.Dispatch { claim(t, l, newClaim("mail:before")); return take(t, l, 1).Dispatches[0] }())
	late, quick := stamped(t, l, "mail:late"), stamped(t, l, "mail:quick")
	done := make(chan error, 1)
	go func() {
		_, err := other.Move(t.Context(), late.Key, delivered(late))
		done <- err
	}()
	<-slow.signing
	move(t, l, quick.Key, delivered(quick))

	first, next := receiptPage(t, l, 1, "")
	if fmt.Sprint(first) != "[mail:before]" || next == "" {
		t.Fatalf("the first page has %v, cursor %q", first, next)
	}
	tail, end := receiptPage(t, l, 1, next)
	if fmt.Sprint(tail) != "[mail:quick]" || end != "" {
		t.Errorf("beside an open transaction the next page has %v and cursor %q; want what is there, and no cursor that passes over what may come", tail, end)
	}
	close(slow.sign)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var got []string
	for after := next; ; {
		page, more := receiptPage(t, l, 1, after)
		got = append(got, page...)
		if after = more; more == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[mail:late mail:quick]" {
		t.Errorf("whoever goes on from the last cursor reads %v, want the late one and the quick one", got)
	}
}

// TestReceiptsAreListedInOrderOnAnotherServer restores a dump on a server whose transactions count from less.
func TestReceiptsAreListedInOrderOnAnotherServer(t *testing.T) {
	l, url := open(t)
	p := pool(t, url)
	exec := func(sql string) {
		t.Helper()
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("UPDATE receipt_order SET base = 1000000000000")
	old := stamped(t, l, "mail:old")
	move(t, l, old.Key, delivered(old))
	older, cursor := receiptPage(t, l, 1, "")
	exec("UPDATE receipt_order SET base = 0") // as a server would have it that counts from less
	restored := openAt(t, url)
	fresh := stamped(t, restored, "mail:new")
	move(t, restored, fresh.Key, delivered(fresh))
	if got, _ := receiptPage(t, restored, 10, ""); fmt.Sprint(got) != "[mail:old mail:new]" {
		t.Errorf("on another server the list is %v", got)
	}
	if got, _ := receiptPage(t, restored, 10, cursor); fmt.Sprint(older, got) != "[mail:old] [mail:new]" {
		t.Errorf("after %v, a cursor from before leads to %v", older, got)
	}
	before, err := p.Exec(t.Context(), "SELECT FROM receipt_order WHERE base > 999999000000")
	if err != nil || before.RowsAffected() != 1 {
		t.Errorf("the order was not raised: %v", err)
	}
	openAt(t, url)
	if got, _ := receiptPage(t, restored, 10, ""); fmt.Sprint(got) != "[mail:old mail:new]" {
		t.Errorf("after another open the list is %v", got)
	}
}
