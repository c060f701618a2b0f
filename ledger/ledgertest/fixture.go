package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

const (
	// longEnough is a fence's time to live that no test outlives.
	longEnough = 10 * time.Minute
	// moment is what sends take in this suite: they are over as soon as they are stamped.
	moment = time.Millisecond
	// patience bounds every wait for something that is sure to come.
	patience = 20 * time.Second
	// engine owns the fences of dispatches, reconciler those of probes.
	engine, reconciler = "engine-1", "reconciler-1"
)

// fixture is one test's part of a ledger: a channel of its own.
type fixture struct {
	t *testing.T
	Backend
	channel string
	run     string // run id of claims that name none
}

func newFixture(t *testing.T, b Backend) *fixture {
	f := &fixture{t: t, Backend: b, run: newRunID()}
	f.channel = f.addChannel(exactSheet())
	return f
}

func newRunID() string { return uuid.NewString() }

// exactSheet is a channel whose probe finds everything, and proves absences as soon as the last send is over.
func exactSheet() channel.Sheet {
	return channel.Sheet{
		Kind: "mail", Version: "1", Token: channel.TokenDerived, Replay: channel.ReplayNever, Probe: channel.ProbeExact,
		NegativeProof: true, Begin: true, EvidenceNamesOneEffect: true, MayAccept: true,
	}
}

// blindSheet is the weakest channel there is.
func blindSheet() channel.Sheet { return channel.Sheet{Kind: "mail", Version: "1"} }

// replaySheet takes the same bytes any number of times.
func replaySheet() channel.Sheet {
	return channel.Sheet{Kind: "mail", Version: "1", Token: channel.TokenDerived, Replay: channel.ReplayForEver}
}

func (f *fixture) ctx() context.Context { return f.t.Context() }

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// wants fails unless err is the wanted one.
func (f *fixture) wants(err, want error) {
	f.t.Helper()
	if !errors.Is(err, want) {
		f.t.Fatalf("got error %v, want %v", err, want)
	}
}

// refused fails unless err is a refusal by the rule.
func (f *fixture) refused(err error, rule string) {
	f.t.Helper()
	var r *ledger.RefusedError
	if !errors.As(err, &r) || r.Rule != rule {
		f.t.Fatalf("got error %v, want a refusal by rule %s", err, rule)
	}
}

// namesField fails unless err is an InvalidError of the field.
func (f *fixture) namesField(err error, field string) {
	f.t.Helper()
	var v *ledger.InvalidError
	if !errors.As(err, &v) || v.Field != field {
		f.t.Fatalf("got error %v, want one that names field %s", err, field)
	}
}

// addChannel stores a channel with the sheet, flag on, and returns its name.
func (f *fixture) addChannel(s channel.Sheet, change ...func(*ledger.ChannelRow)) string {
	f.t.Helper()
	row := ledger.ChannelRow{Name: s.Kind + "/" + uuid.NewString()[:13], Kind: s.Kind, Sheet: s, Flag: ledger.FlagOn}
	for _, c := range change {
		c(&row)
	}
	f.must(f.Ledger.PutChannel(f.ctx(), row))
	f.must(f.Ledger.SetFlag(f.ctx(), row.Name, row.Flag))
	return row.Name
}

// use makes the fixture's channel one with this sheet.
func (f *fixture) use(s channel.Sheet, change ...func(*ledger.ChannelRow)) *fixture {
	f.t.Helper()
	f.channel = f.addChannel(s, change...)
	return f
}

// newClaim is a claim of a new key on the fixture's channel.
func (f *fixture) newClaim(change ...func(*ledger.Claim)) ledger.Claim {
	kind, _, _ := strings.Cut(f.channel, "/")
	c := ledger.Claim{
		RunID: f.run, EffectKey: kind + ":" + uuid.NewString(), Channel: f.channel, Payload: []byte(`{"to":"ann@example.org"}`),
	}
	for _, ch := range change {
		ch(&c)
	}
	return c
}

func inLane(lane string) func(*ledger.Claim) { return func(c *ledger.Claim) { c.Lane = lane } }

// tryClaim claims in a transaction of its own.
func (f *fixture) tryClaim(claims ...ledger.Claim) (results []ledger.ClaimResult, err error) {
	f.t.Helper()
	err = f.Ledger.InTx(f.ctx(), func(tx ledger.Tx) error {
		results, err = f.Ledger.Claim(f.ctx(), tx, claims...)
		return err
	})
	return results, err
}

// claim claims one new intent.
func (f *fixture) claim(change ...func(*ledger.Claim)) ledger.Key {
	f.t.Helper()
	return f.claimAll(f.newClaim(change...))[0]
}

func (f *fixture) claimAll(claims ...ledger.Claim) []ledger.Key {
	f.t.Helper()
	results, err := f.tryClaim(claims...)
	f.must(err)
	keys := make([]ledger.Key, len(results))
	for i, r := range results {
		if r.Status != ledger.ClaimNew {
			f.t.Fatalf("claim %d of %s is %s, want new", i, r.Key, r.Status)
		}
		keys[i] = r.Key
	}
	return keys
}

// request asks for up to limit dispatches on the fixture's channel.
func (f *fixture) request(limit int, change ...func(*ledger.FenceRequest)) ledger.FenceRequest {
	r := ledger.FenceRequest{Fence: ledger.Fence{Owner: engine, TTL: longEnough}, Channel: f.channel, Limit: limit}
	for _, c := range change {
		c(&r)
	}
	return r
}

func (f *fixture) fence(limit int, change ...func(*ledger.FenceRequest)) ledger.FenceResult {
	f.t.Helper()
	r, err := f.Ledger.Fence(f.ctx(), f.request(limit, change...))
	f.must(err)
	return r
}

// fenced fences exactly this intent.
func (f *fixture) fenced(k ledger.Key) ledger.Dispatch {
	f.t.Helper()
	r := f.fence(1, func(r *ledger.FenceRequest) { r.Only = &k })
	if len(r.Dispatches) != 1 || r.Dispatches[0].Intent.Key != k {
		f.t.Fatalf("fencing %s gave %d dispatches, settled %v", k, len(r.Dispatches), r.Settled)
	}
	return r.Dispatches[0]
}

func (f *fixture) try(k ledger.Key, m ledger.Move) (ledger.Result, error) {
	f.t.Helper()
	return f.Ledger.Move(f.ctx(), k, m)
}

func (f *fixture) move(k ledger.Key, m ledger.Move) ledger.Result {
	f.t.Helper()
	r, err := f.try(k, m)
	f.must(err)
	return r
}

// newToken is a token version with data of its own.
func newToken(version int) channel.Token {
	return channel.Token{Version: version, Data: []byte(uuid.NewString()), Hint: json.RawMessage(`{"seen":1}`)}
}

// stamp is a stamp under the fence, with a first token, for a send that is over at once.
func (f *fixture) stamp(i ledger.Intent) ledger.Stamp {
	f.t.Helper()
	row, err := f.Ledger.ChannelRow(f.ctx(), i.Channel)
	f.must(err)
	t := newToken(1)
	return ledger.Stamp{Fence: i.Fence(), Token: &t, Sheet: row.Sheet, SendTimeout: moment, CommitBound: moment, Margin: moment}
}

// stamped fences and stamps this intent, and returns it.
func (f *fixture) stamped(k ledger.Key) ledger.Intent {
	f.t.Helper()
	d := f.fenced(k)
	r := f.move(k, f.stamp(d.Intent))
	if !r.Applied || !r.Intent.Stamped() {
		f.t.Fatalf("the stamp of %s was not applied: %+v", k, r.Intent)
	}
	return r.Intent
}

// committed takes this intent all the way.
func (f *fixture) committed(k ledger.Key) ledger.Intent {
	f.t.Helper()
	i := f.stamped(k)
	return f.move(k, sentAs(i, uuid.NewString())).Intent
}

// sentAs is the commit of a typed delivery.
func sentAs(i ledger.Intent, id string) ledger.Commit {
	return ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: id}, Established: ledger.BySend}
}

// endFence makes the row's fence expire long ago.
func (f *fixture) endFence(k ledger.Key) {
	f.t.Helper()
	f.update(k, "fence_expires_at = created_at")
}

func (f *fixture) update(k ledger.Key, set string) {
	f.t.Helper()
	f.must(f.Exec(f.ctx(), "UPDATE effect_intents SET "+set+where(k)))
}

func where(k ledger.Key) string {
	return fmt.Sprintf(" WHERE run_id = %s AND effect_key = %s", quote(k.RunID), quote(k.EffectKey))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (f *fixture) queryInt(sql string) int64 {
	f.t.Helper()
	n, err := f.QueryInt(f.ctx(), sql)
	f.must(err)
	return n
}

// probing ends the row's fence and takes a probing fence.
func (f *fixture) probing(k ledger.Key) ledger.Intent {
	f.t.Helper()
	if i := f.read(k); i.State == ledger.StateDispatched {
		f.endFence(k)
	}
	return f.move(k, probeFence()).Intent
}

func probeFence() ledger.ProbeFence {
	return ledger.ProbeFence{Owner: reconciler, TTL: longEnough, ClockAllowance: 1}
}

func (f *fixture) read(k ledger.Key) ledger.Intent {
	f.t.Helper()
	i, _, err := f.Ledger.Intent(f.ctx(), k)
	f.must(err)
	return i
}

// is fails unless the row is in the state; it returns the row.
func (f *fixture) is(k ledger.Key, want ledger.State) ledger.Intent {
	f.t.Helper()
	i := f.read(k)
	if i.State != want {
		f.t.Fatalf("%s is %s (%s), want %s", k, i.State, i.Outcome(), want)
	}
	return i
}

func (f *fixture) now() time.Time {
	f.t.Helper()
	now, err := f.Ledger.Now(f.ctx())
	f.must(err)
	return now
}

// after returns a time of the database's clock that is after t, waiting for it if need be.
func (f *fixture) after(t time.Time) time.Time {
	f.t.Helper()
	if f.Advance != nil {
		if d := t.Sub(f.now()); d >= 0 {
			f.Advance(d + time.Millisecond)
		}
	}
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(time.Millisecond) { // the clock is the event
		if now := f.now(); now.After(t) {
			return now
		}
	}
	f.t.Fatalf("the database's clock did not come to %s", t)
	return time.Time{}
}

// outcomes is the intent's dispatch log in one line.
func (f *fixture) outcomes(k ledger.Key) string {
	f.t.Helper()
	log, err := f.Ledger.Log(f.ctx(), k)
	f.must(err)
	var all []string
	for _, e := range log {
		all = append(all, string(e.Outcome))
	}
	return strings.Join(all, " ")
}

func (f *fixture) receipts(k ledger.Key) []ledger.StoredReceipt {
	f.t.Helper()
	r, err := f.Ledger.ReceiptsOf(f.ctx(), k)
	f.must(err)
	return r
}

func lease(l fence.Lease) func(*ledger.Claim) {
	return func(c *ledger.Claim) { c.Lease, c.RunID = &l, l.RunID }
}
