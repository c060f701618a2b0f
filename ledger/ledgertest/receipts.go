package ledgertest

import (
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

func receiptTopic() topic {
	return topic{"list of receipts", []testCase{
		{name: "is paged in order of issue, without gaps or repeats, also while more are issued", run: receiptPages},
		{name: "of one run has that run's only", run: receiptsOfRun},
		{name: "shows an owed receipt by its row's id, and once it is paid at the end", run: receiptOwed},
	}}
}

// allReceipts reads all pages and calls between before each but the first.
func (f *fixture) allReceipts(filter ledger.ReceiptFilter, between func()) (ids []string, last ledger.Cursor) {
	f.t.Helper()
	for pages := 0; ; pages++ {
		if pages > 0 && between != nil {
			between()
		}
		page, next, err := f.Ledger.ReceiptPage(f.ctx(), filter)
		f.must(err)
		if filter.Limit > 0 && len(page) > filter.Limit || pages > 200 {
			f.t.Fatalf("page %d of %d has %d receipts", pages, filter.Limit, len(page))
		}
		for _, r := range page {
			if r.Owed || len(r.Envelope) == 0 || r.IssuedAt.IsZero() || r.Digest == "" {
				f.t.Errorf("listed as issued: %+v", r)
			}
			ids = append(ids, r.ID)
		}
		if next == "" {
			return ids, last
		}
		filter.After, last = next, next
	}
}

func (f *fixture) committedReceipt() string {
	f.t.Helper()
	k := f.claim()
	f.committed(k)
	return f.receipts(k)[0].ID
}

func receiptPages(f *fixture) {
	var want []string
	for range 7 {
		want = append(want, f.committedReceipt())
	}
	for _, limit := range []int{1, 3, 7, 0} {
		got, _ := f.allReceipts(ledger.ReceiptFilter{Limit: limit}, nil)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			f.t.Errorf("pages of %d list\n%v, want\n%v", limit, got, want)
		}
	}
	more := 3
	got, last := f.allReceipts(ledger.ReceiptFilter{Limit: 2}, func() {
		if more > 0 {
			more--
			want = append(want, f.committedReceipt())
		}
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("while more were issued, pages list\n%v, want\n%v", got, want)
	}
	// Whoever kept the last cursor goes on from there.
	want = append(want, f.committedReceipt(), f.committedReceipt())
	rest, _ := f.allReceipts(ledger.ReceiptFilter{Limit: 2, After: last}, nil)
	seen := map[string]int{}
	for _, id := range append(got, rest...) {
		seen[id]++
	}
	for _, id := range want {
		if seen[id] == 0 {
			f.t.Errorf("whoever went on from the last cursor missed %s", id)
		}
	}
	one, err := f.Ledger.Receipt(f.ctx(), want[0])
	f.must(err)
	if of := f.receipts(one.Key); one.ID != want[0] || len(of) != 1 || string(of[0].Envelope) != string(one.Envelope) {
		f.t.Errorf("receipt %s is %+v", want[0], one)
	}
	_, err = f.Ledger.Receipt(f.ctx(), newRunID())
	f.wants(err, ledger.ErrNoReceipt)
	_, err = f.Ledger.Receipt(f.ctx(), "no uuid: \x00")
	f.wants(err, ledger.ErrNoReceipt)
	if _, _, err := f.Ledger.ReceiptPage(f.ctx(), ledger.ReceiptFilter{After: "no such cursor"}); err == nil {
		f.t.Error("a cursor that nobody gave was taken")
	}
}

func receiptsOfRun(f *fixture) {
	f.committedReceipt()
	f.run = newRunID()
	want := []string{f.committedReceipt(), f.committedReceipt(), f.committedReceipt()}
	run := f.run
	f.run = newRunID()
	f.committedReceipt()
	for _, limit := range []int{1, 2, 100} {
		if got, _ := f.allReceipts(ledger.ReceiptFilter{RunID: run, Limit: limit}, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			f.t.Errorf("pages of %d list %v, want %v", limit, got, want)
		}
	}
	for _, none := range []string{newRunID(), "no uuid"} {
		if page, next, err := f.Ledger.ReceiptPage(f.ctx(), ledger.ReceiptFilter{RunID: none}); err != nil || len(page) != 0 || next != "" {
			f.t.Errorf("receipts of run %s: %v, %q, %v", none, page, next, err)
		}
	}
}

func receiptOwed(f *fixture) {
	unsigned := f.Reopen(f.t, nil)
	k := f.claim()
	i := f.stamped(k)
	_, err := unsigned.Move(f.ctx(), k, sentAs(i, "owed-"+f.run))
	f.must(err)
	row := f.receipts(k)[0]
	got, err := f.Ledger.Receipt(f.ctx(), row.ID)
	f.must(err)
	if !got.Owed || got.Key != k || len(got.Envelope) != 0 || got.Reason == "" {
		f.t.Errorf("an owed receipt is %+v", got)
	}
	before, last := f.allReceipts(ledger.ReceiptFilter{Limit: 1}, nil)
	younger := f.committedReceipt()
	paid, owed, err := f.Ledger.PayReceipts(f.ctx(), 0)
	if f.must(err); paid < 1 || owed != 0 {
		paid, owed, err = f.Ledger.PayReceipts(f.ctx(), 100)
		f.must(err)
	}
	id := f.receipts(k)[0].ID
	if got, err = f.Ledger.Receipt(f.ctx(), id); err != nil || got.Owed || len(got.Envelope) == 0 {
		f.t.Errorf("paid %d, owed %d: %+v, %v", paid, owed, got, err)
	}
	after, _ := f.allReceipts(ledger.ReceiptFilter{Limit: 1, After: last}, nil)
	if n := len(after); n < 2 || after[n-2] != younger || after[n-1] != id {
		f.t.Errorf("after %v came %v; want %s, and the one that was paid last", before, after, younger)
	}
}
