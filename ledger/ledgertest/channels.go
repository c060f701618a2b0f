package ledgertest

import (
	"strings"
	"sync"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func channelsTopic() topic {
	return topic{"channels and rate", []testCase{
		{name: "keep flag and pause when they are put again", run: channelsKeep},
		{name: "that are unknown name the known ones", run: channelsUnknown},
		{name: "are listed by name", run: channelsListed},
		{name: "without a rate grant everything", run: rateNone},
		{name: "share a rate over all engines and say when to ask again", run: rateShared},
	}}
}

func channelsKeep(f *fixture) {
	f.must(f.Ledger.SetFlag(f.ctx(), f.channel, ledger.FlagShadow))
	f.must(f.Ledger.SetPaused(f.ctx(), f.channel, true, "credentials\x00 refused"+strings.Repeat(" again", 1000)+"\xff")) // an adapter's words
	sheet := blindSheet()
	sheet.SettleTime = channel.Duration(7 * time.Second)
	f.must(f.Ledger.PutChannel(f.ctx(), ledger.ChannelRow{Name: f.channel, Kind: "mail", Sheet: sheet, Flag: ledger.FlagOn, ApprovalRequired: true, RatePerMinute: 9}))
	row, err := f.Ledger.ChannelRow(f.ctx(), f.channel)
	f.must(err)
	if row.Flag != ledger.FlagShadow || !row.Paused || !strings.HasPrefix(row.PauseReason, "credentials refused again") {
		f.t.Errorf("put again, the channel is %s, paused %v (%q)", row.Flag, row.Paused, row.PauseReason)
	}
	if row.Sheet.SettleTime != sheet.SettleTime || !row.ApprovalRequired || row.RatePerMinute != 9 || row.Kind != "mail" || row.UpdatedAt.IsZero() {
		f.t.Errorf("put again, the channel is %+v", row)
	}
	f.must(f.Ledger.SetPaused(f.ctx(), f.channel, false, ""))
	row, err = f.Ledger.ChannelRow(f.ctx(), f.channel)
	f.must(err)
	if row.Paused || row.PauseReason != "" || !row.Sends() {
		f.t.Errorf("unpaused is %+v", row)
	}
	if err := f.Ledger.SetFlag(f.ctx(), f.channel, "sideways"); err == nil {
		f.t.Error("a flag that does not exist was taken")
	}
}

func channelsUnknown(f *fixture) {
	for name, err := range map[string]error{
		"ChannelRow": func() error { _, err := f.Ledger.ChannelRow(f.ctx(), "mail/nowhere"); return err }(),
		"SetFlag":    f.Ledger.SetFlag(f.ctx(), "mail/nowhere", ledger.FlagOn),
		"SetPaused":  f.Ledger.SetPaused(f.ctx(), "mail/nowhere", true, "x"),
	} {
		f.wants(err, ledger.ErrUnknownChannel)
		if !strings.Contains(err.Error(), f.channel) {
			f.t.Errorf("%s: %q names no known channel", name, err)
		}
	}
}

func channelsListed(f *fixture) {
	rows, err := f.Ledger.ChannelRows(f.ctx())
	f.must(err)
	found := false
	for n, r := range rows {
		found = found || r.Name == f.channel
		if n > 0 && rows[n-1].Name >= r.Name {
			f.t.Errorf("%s stands after %s", r.Name, rows[n-1].Name)
		}
	}
	if !found {
		f.t.Error("a channel is missing from the list")
	}
}

func rateNone(f *fixture) {
	granted, wait, err := f.Ledger.TakeRate(f.ctx(), f.channel, 1000)
	f.must(err)
	if granted != 1000 || wait != 0 {
		f.t.Errorf("granted %d, wait %s", granted, wait)
	}
}

func rateShared(f *fixture) {
	f.use(exactSheet(), func(r *ledger.ChannelRow) { r.RatePerMinute = 600 }) // ten in a second
	other := f.Reopen(f.t, &Signer{})
	var mu sync.Mutex
	total := 0
	var group sync.WaitGroup
	began := time.Now()
	for _, l := range []ledger.Ledger{f.Ledger, other, f.Ledger, other} {
		group.Go(func() {
			for range 5 {
				granted, _, err := l.TakeRate(f.ctx(), f.channel, 20)
				if err != nil {
					f.t.Errorf("take: %v", err)
				}
				mu.Lock()
				total += granted
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if limit := 10 + int(time.Since(began)/(100*time.Millisecond)) + 1; total < 1 || total > limit {
		f.t.Errorf("%d were granted in %s, want at most %d", total, time.Since(began), limit)
	}
	var granted int
	var wait time.Duration
	for range 50 {
		var err error
		if granted, wait, err = f.Ledger.TakeRate(f.ctx(), f.channel, 20); err != nil {
			f.t.Fatal(err)
		}
		if granted == 0 {
			break
		}
	}
	if granted == 0 { // else the machine is too slow to empty a bucket of ten in a second; the channel of one a minute shows the rest
		if wait <= 0 || wait > 200*time.Millisecond {
			f.t.Errorf("nothing granted, ask again in %s; want within a tenth of a second", wait)
		}
		f.after(f.now().Add(wait + 20*time.Millisecond))
	}
	if granted, _, err := f.Ledger.TakeRate(f.ctx(), f.channel, 1); err != nil || granted != 1 {
		f.t.Errorf("after the wait: %d granted, %v", granted, err)
	}
	slow := f.addChannel(exactSheet(), func(r *ledger.ChannelRow) { r.RatePerMinute = 1 })
	if granted, _, err := f.Ledger.TakeRate(f.ctx(), slow, 5); err != nil || granted != 1 {
		f.t.Errorf("one a minute: the first grant is %d, %v", granted, err)
	}
	if granted, wait, err := f.Ledger.TakeRate(f.ctx(), slow, 5); err != nil || granted != 0 || wait < 50*time.Second || wait > time.Minute {
		f.t.Errorf("one a minute: the second grant is %d, ask again in %s, %v", granted, wait, err)
	}
	for range 3 { // what was not used is given back, and fills the bucket no further than full
		if granted, _, err := f.Ledger.TakeRate(f.ctx(), slow, -1); err != nil || granted != 0 {
			f.t.Errorf("give back: %d granted, %v", granted, err)
		}
	}
	if granted, _, err := f.Ledger.TakeRate(f.ctx(), slow, 5); err != nil || granted != 1 {
		f.t.Errorf("one a minute: after giving back the grant is %d, %v", granted, err)
	}
}
