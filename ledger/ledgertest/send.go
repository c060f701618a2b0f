package ledgertest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

func sendTopic() topic {
	return topic{"token and stamp", []testCase{
		{name: "a token is kept by compare-and-set and the loser adopts it", run: tokenAdopted},
		{name: "a version that skips one is refused", run: tokenVersions},
		{name: "a further version of a row in doubt must exclude the earlier ones", run: tokenRemade},
		{name: "a token of another intent is a clash", run: tokenClash},
		{name: "a lane's number is raised with the token that drew it", run: tokenLaneNumber},
		{name: "a stamp needs a fence with enough left", run: stampRemaining},
		{name: "a stamp under an expired or lost fence is refused", run: stampFence},
		{name: "there is one stamp for each fence", run: stampTwice},
		{name: "a stamp needs a token", run: stampToken},
		{name: "a stamp writes the arithmetic of not-after", run: stampNotAfter},
		{name: "the last possible send never moves earlier", run: stampLastPossible},
		{name: "what the sheet said stays with the row", run: stampSheet},
	}}
}

func tokenAdopted(f *fixture) {
	k := f.claim()
	i := f.fenced(k).Intent
	first, second := newToken(1), newToken(1)
	first.Life, first.ExcludesEarlier, first.LaneNumber = time.Hour, true, 7
	f.move(k, ledger.PutToken{Fence: i.Fence(), Token: first})
	if r := f.move(k, ledger.PutToken{Fence: i.Fence(), Token: second}); string(r.Token.Data) != string(first.Data) {
		f.t.Errorf("the loser was told %q, want the stored %q", r.Token.Data, first.Data)
	}
	m := f.stamp(i)
	m.Token = &second
	if r := f.move(k, m); string(r.Token.Data) != string(first.Data) || !r.Intent.Stamped() {
		f.t.Errorf("the stamp with another first version was told %q, want %q", r.Token.Data, first.Data)
	}
	_, tokens, err := f.Ledger.Intent(f.ctx(), k)
	f.must(err)
	if len(tokens) != 1 {
		f.t.Fatalf("%d tokens are stored", len(tokens))
	}
	got := tokens[0]
	if got.Version != 1 || string(got.Data) != string(first.Data) || string(got.Hint) != string(first.Hint) || got.Life != time.Hour ||
		!got.ExcludesEarlier || got.LaneNumber != 7 || got.Dead || got.MadeAt.IsZero() {
		f.t.Errorf("stored is %+v, want %+v", got, first)
	}
}

func tokenVersions(f *fixture) {
	k := f.claim()
	i := f.fenced(k).Intent
	_, err := f.try(k, ledger.PutToken{Fence: i.Fence(), Token: newToken(2)})
	f.refused(err, "version")
	for n := 1; n <= 3; n++ { // nothing was sent: any version may follow
		f.move(k, ledger.PutToken{Fence: i.Fence(), Token: newToken(n)})
	}
	big := newToken(4)
	big.Data = []byte(strings.Repeat("\x00\xff", 1<<20))
	big.Hint = nil
	f.move(k, ledger.PutToken{Fence: i.Fence(), Token: big})
	_, tokens, err := f.Ledger.Intent(f.ctx(), k)
	f.must(err)
	if len(tokens) != 4 || string(tokens[3].Data) != string(big.Data) || len(tokens[3].Hint) != 0 {
		f.t.Errorf("%d tokens are stored, or not as they were", len(tokens))
	}
}

func tokenRemade(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	i := f.stamped(k)
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	i = f.fenced(k).Intent
	_, err := f.try(k, ledger.PutToken{Fence: i.Fence(), Token: newToken(2)})
	f.refused(err, "token-remade")
	t := newToken(2)
	t.ExcludesEarlier = true
	f.move(k, ledger.PutToken{Fence: i.Fence(), Token: t})
}

func tokenClash(f *fixture) {
	a, b := f.claim(), f.claim()
	i, j := f.fenced(a).Intent, f.fenced(b).Intent
	t := newToken(1)
	f.move(a, ledger.PutToken{Fence: i.Fence(), Token: t})
	_, err := f.try(b, ledger.PutToken{Fence: j.Fence(), Token: t})
	f.wants(err, ledger.ErrTokenClash)
	m := f.stamp(j)
	m.Token = &t
	_, err = f.try(b, m)
	f.wants(err, ledger.ErrTokenClash)
	if f.read(b).Stamped() {
		f.t.Error("a stamp with a token that clashed was written")
	}
	f.move(b, f.stamp(j))

	f.use(exactSheet()) // on another channel the same bytes are another token
	c := f.claim()
	f.move(c, ledger.PutToken{Fence: f.fenced(c).Intent.Fence(), Token: t})
}

func tokenLaneNumber(f *fixture) {
	sheet := exactSheet()
	sheet.LaneNumbers, sheet.LaneRequired = true, true
	f.use(sheet)
	lane := inLane("wallet-" + uuid.NewString())
	for n := int64(1); n <= 3; n++ {
		k := f.claim(lane)
		d := f.fence(1).Dispatches[0]
		if d.LaneNumber != n {
			f.t.Fatalf("the lane's next number is %d, want %d", d.LaneNumber, n)
		}
		m := f.stamp(d.Intent)
		m.Token.LaneNumber, m.DrawsFromLane = d.LaneNumber, true
		r := f.move(k, m)
		f.move(k, sentAs(r.Intent, uuid.NewString()))
	}
	k := f.claim(lane)
	d := f.fence(1).Dispatches[0]
	t := newToken(1)
	t.LaneNumber = d.LaneNumber
	f.move(k, ledger.PutToken{Fence: d.Intent.Fence(), Token: t, DrawsFromLane: true})
	f.move(k, ledger.PutToken{Fence: d.Intent.Fence(), Token: t, DrawsFromLane: true}) // adopted: draws nothing
	f.move(k, ledger.Reopen{Fence: d.Intent.Fence(), Proof: ledger.ProofNoStamp})
	d = f.fence(1).Dispatches[0]
	if d.LaneNumber != 5 || d.Tokens[0].LaneNumber != 4 {
		f.t.Errorf("after four tokens the next number is %d and the stored token has %d", d.LaneNumber, d.Tokens[0].LaneNumber)
	}
}

func stampRemaining(f *fixture) {
	k := f.claim()
	i := f.fenced(k).Intent
	m := f.stamp(i)
	m.SendTimeout, m.CommitBound, m.Margin = longEnough-time.Minute, time.Minute, time.Second
	_, err := f.try(k, m)
	f.wants(err, ledger.ErrFenceExpired)
	m.Margin = 0
	_, err = f.try(k, m)
	f.refused(err, "times")
	if _, tokens, _ := f.Ledger.Intent(f.ctx(), k); len(tokens) != 0 || f.read(k).Attempts != 0 {
		f.t.Error("a stamp that was refused left something")
	}
	f.move(k, f.stamp(i))
}

func stampFence(f *fixture) {
	k := f.claim()
	i := f.fenced(k).Intent
	m := f.stamp(i)
	wrong := m
	wrong.Fence.Owner = "engine-2"
	_, err := f.try(k, wrong)
	f.wants(err, ledger.ErrFenceLost)
	wrong = m
	wrong.Fence.Epoch++
	_, err = f.try(k, wrong)
	f.wants(err, ledger.ErrFenceLost)
	f.endFence(k)
	_, err = f.try(k, m)
	f.wants(err, ledger.ErrFenceExpired)
	_, err = f.try(k, ledger.PutToken{Fence: i.Fence(), Token: newToken(1)})
	f.wants(err, ledger.ErrFenceExpired)
	p := f.move(k, probeFence()).Intent
	_, err = f.try(k, m)
	f.wants(err, ledger.ErrFenceLost)
	m.Fence = p.Fence()
	_, err = f.try(k, m)
	f.refused(err, "probing")
	if f.read(k).Stamped() {
		f.t.Error("one of the refused stamps was written")
	}
}

func stampTwice(f *fixture) {
	k := f.claim()
	i := f.stamped(k)
	m := f.stamp(i)
	_, err := f.try(k, m)
	f.refused(err, "resend-of-stamped")
	if got := f.read(k); got.Attempts != 1 || !got.SendStartedAt.Equal(i.SendStartedAt) {
		f.t.Errorf("a second stamp changed the first: attempt %d", got.Attempts)
	}
}

func stampToken(f *fixture) {
	k := f.claim()
	m := f.stamp(f.fenced(k).Intent)
	m.Token = nil
	_, err := f.try(k, m)
	f.refused(err, "token")
}

func stampNotAfter(f *fixture) {
	near := func(what string, got, want time.Duration) {
		f.t.Helper()
		if d := got - want; d < -10*time.Millisecond || d > 10*time.Millisecond {
			f.t.Errorf("%s: not after %s, want %s", what, got, want)
		}
	}
	for name, c := range map[string]struct {
		sheet  func(*channel.Sheet)
		claim  func(*ledger.Claim)
		stamp  func(*ledger.Stamp)
		wanted time.Duration
		slack  time.Duration
	}{
		"send timeout": {wanted: time.Minute},
		"end of the intent": {claim: func(c *ledger.Claim) { c.ExpiresAt = f.now().Add(30 * time.Second) }, wanted: 30 * time.Second,
			slack: patience},
		"token life": {
			sheet: func(s *channel.Sheet) {
				s.Replay, s.TokenLife = channel.ReplayWithinLife, channel.Duration(40*time.Second)
			},
			wanted: 35 * time.Second,
		},
		"the token's own life": {stamp: func(m *ledger.Stamp) { m.Token.Life = 20 * time.Second }, wanted: 15 * time.Second},
	} {
		sheet := exactSheet()
		if c.sheet != nil {
			c.sheet(&sheet)
		}
		f.use(sheet)
		k := f.claim(func(cl *ledger.Claim) {
			if c.claim != nil {
				c.claim(cl)
			}
		})
		m := f.stamp(f.fenced(k).Intent)
		m.SendTimeout, m.CommitBound, m.Margin = time.Minute, 5*time.Second, 5*time.Second
		if c.stamp != nil {
			c.stamp(&m)
		}
		r := f.move(k, m)
		if c.slack == 0 {
			near(name, r.Remaining, c.wanted)
		} else if r.Remaining > c.wanted || r.Remaining < c.wanted-c.slack {
			f.t.Errorf("%s: not after %s, want at most %s", name, r.Remaining, c.wanted)
		}
		stored := f.read(k)
		near(name+" as stored", stored.LastPossibleSend.Sub(stored.SendStartedAt), r.Remaining)
		if !stored.FirstSentAt.Equal(stored.SendStartedAt) || stored.Attempts != 1 {
			f.t.Errorf("%s: first sent at %s, stamped at %s, attempt %d", name, stored.FirstSentAt, stored.SendStartedAt, stored.Attempts)
		}
	}
}

func stampLastPossible(f *fixture) {
	f.use(replaySheet())
	k := f.claim()
	m := f.stamp(f.fenced(k).Intent)
	m.SendTimeout = time.Minute
	i := f.move(k, m).Intent
	f.move(k, ledger.Reopen{Fence: i.Fence(), Proof: ledger.ProofReplaySafe})
	again := f.stamped(k) // a send that is over at once
	if !again.LastPossibleSend.Equal(i.LastPossibleSend) || !again.FirstSentAt.Equal(i.FirstSentAt) || again.Attempts != 2 {
		f.t.Errorf("the second stamp moved the last possible send from %s to %s", i.LastPossibleSend, again.LastPossibleSend)
	}
}

func stampSheet(f *fixture) {
	sheet := replaySheet()
	sheet.SettleTime, sheet.AcceptedFreesLane = channel.Duration(time.Hour), true
	f.use(sheet)
	k := f.claim()
	f.stamped(k)
	weaker := sheet
	weaker.Replay, weaker.SettleTime = channel.ReplayNever, 0
	f.must(f.Ledger.PutChannel(f.ctx(), ledger.ChannelRow{Name: f.channel, Kind: "mail", Sheet: weaker, Flag: ledger.FlagOn}))
	got, want := f.read(k).Sheet, ledger.StampSheet(sheet)
	if got != want {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		f.t.Errorf("stored sheet is %s, want %s", a, b)
	}
}
