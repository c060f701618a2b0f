package ledger_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

func goodClaim() ledger.Claim {
	return ledger.Claim{
		RunID: "01890a5d-ac96-774b-bcce-b302099a8057", EffectKey: "mail:welcome", Channel: "mail/marketing", Payload: []byte(`{"to":"ann"}`),
	}
}

func wantField(t *testing.T, what string, err error, field string) {
	t.Helper()
	var invalid *ledger.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("%s: got error %v, want one that names field %s", what, err, field)
		return
	}
	if strings.ContainsAny(err.Error(), "\x00\n") || len(err.Error()) > 3000 {
		t.Errorf("%s: the error carries what it was given, raw: %.100q", what, err)
	}
}

func TestPrepareNamesTheFieldThatCannotBeRight(t *testing.T) {
	for name, c := range map[string]struct {
		field  string
		change func(*ledger.Claim)
	}{
		"no run":                   {"run_id", func(c *ledger.Claim) { c.RunID = "" }},
		"run is no UUID":           {"run_id", func(c *ledger.Claim) { c.RunID = "order-1" }},
		"run with a line end":      {"run_id", func(c *ledger.Claim) { c.RunID += "\n" }},
		"no key":                   {"effect_key", func(c *ledger.Claim) { c.EffectKey = "" }},
		"key without a kind":       {"effect_key", func(c *ledger.Claim) { c.EffectKey = "welcome" }},
		"key of another kind":      {"effect_key", func(c *ledger.Claim) { c.EffectKey = "telegram:1" }},
		"key in shadow":            {"effect_key", func(c *ledger.Claim) { c.EffectKey = "shadow:mail:1" }},
		"key with a NUL":           {"effect_key", func(c *ledger.Claim) { c.EffectKey = "mail:\x00" }},
		"key of invalid UTF-8":     {"effect_key", func(c *ledger.Claim) { c.EffectKey = "mail:\xff" }},
		"key too long":             {"effect_key", func(c *ledger.Claim) { c.EffectKey = "mail:" + strings.Repeat("x", ledger.MaxEffectKey) }},
		"no channel":               {"channel", func(c *ledger.Claim) { c.Channel = "" }},
		"channel with a space":     {"channel", func(c *ledger.Claim) { c.Channel = "mail room" }},
		"channel with two slashes": {"channel", func(c *ledger.Claim) { c.Channel = "mail/a/b" }},
		"channel with a quote":     {"channel", func(c *ledger.Claim) { c.Channel = "mail/a'b" }},
		"channel too long":         {"channel", func(c *ledger.Claim) { c.Channel = "mail/" + strings.Repeat("x", ledger.MaxName) }},
		"lane with a NUL":          {"lane", func(c *ledger.Claim) { c.Lane = "\x00" }},
		"lane too long":            {"lane", func(c *ledger.Claim) { c.Lane = strings.Repeat("x", ledger.MaxName+1) }},
		"no payload":               {"payload", func(c *ledger.Claim) { c.Payload = nil }},
		"payload is no JSON":       {"payload", func(c *ledger.Claim) { c.Payload = []byte("to ann") }},
		"payload of invalid UTF-8": {"payload", func(c *ledger.Claim) { c.Payload = []byte("\"\xff\"") }},
		"payload beyond a double":  {"payload", func(c *ledger.Claim) { c.Payload = []byte("1e999") }},
		"payload with a name twice": {"payload", func(c *ledger.Claim) {
			// Some readers merge the two, and send what the digest does not cover.
			c.Payload = []byte(`{"to":"ann","headers":{"List-Id":"a"},"headers":{}}`)
		}},
		"payload that is rounded": {"payload", func(c *ledger.Claim) { c.Payload = []byte(`{"wei":9007199254740993}`) }},
		"payload too large":       {"payload", func(c *ledger.Claim) { c.Payload = make([]byte, ledger.MaxPayload+1) }},
		"expires when due":        {"expires_at", func(c *ledger.Claim) { c.DueAt = start(); c.ExpiresAt = start() }},
		"lease of another run":    {"lease", func(c *ledger.Claim) { c.Lease = &fence.Lease{RunID: "x"} }},
	} {
		claim := goodClaim()
		c.change(&claim)
		_, err := ledger.Prepare(claim)
		wantField(t, name, err, c.field)
	}
}

func TestPreparedIsTheClaimAndItsDigest(t *testing.T) {
	c := goodClaim()
	a, err := ledger.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	c.RunID, c.Payload = strings.ToUpper(c.RunID), []byte("{ \"to\" : \"ann\" }")
	b, err := ledger.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	if a.PayloadDigest != b.PayloadDigest || a.RunID != b.RunID || a.Kind != "mail" || len(a.PayloadDigest) != 64 {
		t.Errorf("one value has digests %s and %s, kind %s", a.PayloadDigest, b.PayloadDigest, a.Kind)
	}
	i := b.Intent(start())
	if string(i.Payload) != string(c.Payload) || !i.DueAt.Equal(start()) || !i.CreatedAt.Equal(start()) || i.State != ledger.StateIntent {
		t.Errorf("the intent is %+v", i)
	}
	c.DueAt = start().Add(time.Hour)
	c.Lease = &fence.Lease{RunID: strings.ToLower(c.RunID), Fence: fence.Fence{Number: 7}}
	b, err = ledger.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	if i := b.Intent(start()); i.RunNumber != 7 || !i.DueAt.Equal(c.DueAt) {
		t.Errorf("due %s under lease %d", i.DueAt, i.RunNumber)
	}
}

func TestAdmitChecksTheChannel(t *testing.T) {
	row := ledger.ChannelRow{Name: "mail/marketing", Kind: "mail", Flag: ledger.FlagOn}
	with := func(change func(*ledger.ChannelRow)) ledger.ChannelRow { r := row; change(&r); return r }
	for name, c := range map[string]struct {
		row   ledger.ChannelRow
		field string
	}{
		"good":             {row, ""},
		"paused":           {with(func(r *ledger.ChannelRow) { r.Flag = ledger.FlagPaused; r.Paused = true }), ""},
		"payload too long": {with(func(r *ledger.ChannelRow) { r.Sheet.MaxPayload = 5 }), "payload"},
		"lane required":    {with(func(r *ledger.ChannelRow) { r.Sheet.LaneRequired = true }), "lane"},
		"approval missing": {with(func(r *ledger.ChannelRow) { r.ApprovalRequired = true }), "approval"},
		"schema":           {with(func(r *ledger.ChannelRow) { r.Sheet.PayloadSchema = json.RawMessage(`{"required":["subject"]}`) }), "payload"},
	} {
		p, err := ledger.Prepare(goodClaim())
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Admit(c.row, start(), &ledger.Schemas{})
		if c.field != "" {
			wantField(t, name, err, c.field)
		} else if err != nil || got.EffectKey != p.EffectKey {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := ledger.Prepare(goodClaim())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Admit(with(func(r *ledger.ChannelRow) { r.Flag = ledger.FlagOff }), start(), &ledger.Schemas{}); !errors.Is(err, ledger.ErrChannelOff) {
		t.Errorf("off: %v", err)
	}
	got, err := p.Admit(with(func(r *ledger.ChannelRow) { r.Flag = ledger.FlagShadow }), start(), &ledger.Schemas{})
	if err != nil || got.EffectKey != "shadow:mail:welcome" || !got.Intent(start()).Shadow() {
		t.Errorf("shadow: %v, %v", got.EffectKey, err)
	}
}

func TestApprovalBindsOneThingForATime(t *testing.T) {
	digest, err := ledger.ApprovalDigest("mail", "mail:1", "d")
	if err != nil {
		t.Fatal(err)
	}
	good := ledger.Approval{By: "ann", Reference: "t-1", Until: start().Add(time.Hour), Digest: digest}
	for name, c := range map[string]struct {
		change             func(*ledger.Approval)
		channel, key, load string
		now                time.Duration
		refused            bool
	}{
		"good":            {},
		"without an end":  {change: func(a *ledger.Approval) { a.Until = time.Time{} }, now: 1000 * time.Hour},
		"just before":     {now: time.Hour - 1},
		"at its end":      {now: time.Hour, refused: true},
		"other channel":   {channel: "mail/x", refused: true},
		"other key":       {key: "mail:2", refused: true},
		"other payload":   {load: "e", refused: true},
		"nobody":          {change: func(a *ledger.Approval) { a.By = "" }, refused: true},
		"no reference":    {change: func(a *ledger.Approval) { a.Reference = "" }, refused: true},
		"no digest":       {change: func(a *ledger.Approval) { a.Digest = "" }, refused: true},
		"shuffled fields": {channel: "mail:1", key: "mail", refused: true},
	} {
		a := good
		if c.change != nil {
			c.change(&a)
		}
		or := func(s, d string) string {
			if s == "" {
				return d
			}
			return s
		}
		reason := a.Check(or(c.channel, "mail"), or(c.key, "mail:1"), or(c.load, "d"), start().Add(c.now))
		if (reason != "") != c.refused {
			t.Errorf("%s: %q", name, reason)
		}
	}
	// Frozen: approvals are made elsewhere, by programs that compute the same digest, of {"channel":…,"effectKey":…,"payloadDigest":…}.
	sum := sha256.Sum256([]byte(`{"channel":"mail","effectKey":"mail:1","payloadDigest":"d"}`))
	if want := hex.EncodeToString(sum[:]); digest != want {
		t.Errorf("digest is %s, want %s", digest, want)
	}
}

func TestSchemaFaultsNameTheMember(t *testing.T) {
	var schemas ledger.Schemas
	schema := json.RawMessage(`{"type":"object","required":["to"],"additionalProperties":false,"properties":{"to":{"type":"array","items":{"type":"object","properties":{"address":{"type":"string","format":"email"}}}}}}`)
	for payload, field := range map[string]string{
		`{"to":[{"address":"a@b.c"},{"address":5}]}`: "payload.to.1.address", `{"to":"ann"}`: "payload.to", `{}`: "payload", `7`: "payload",
		`{"to":[],"bcc":1}`: "payload",
	} {
		wantField(t, payload, schemas.Check(schema, []byte(payload)), field)
	}
	if err := schemas.Check(schema, []byte(`{"to":[{"address":"a@b.c"}]}`)); err != nil {
		t.Error(err)
	}
	if err := schemas.Check(nil, []byte(`anything`)); err != nil {
		t.Errorf("without a schema: %v", err)
	}
	for name, bad := range map[string]string{
		"no JSON": "{", "no schema": `{"type":"nonsense"}`, "a file": `{"$ref":"file:///etc/passwd"}`, "the network": `{"$ref":"https://example.org/s.json"}`,
	} {
		wantField(t, name, schemas.Compile(json.RawMessage(bad)), "payload_schema")
	}
}

func TestSchemaFaultIsBoundedAndPrintable(t *testing.T) {
	var schemas ledger.Schemas
	key := strings.Repeat("k", 100_000) + `\u0000`
	err := schemas.Check(json.RawMessage(`{"additionalProperties":{"type":"string"}}`), []byte(`{"`+key+`":1}`))
	var invalid *ledger.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Error()) > 5000 || strings.Contains(invalid.Error(), "\x00") {
		t.Errorf("the error is %.200q", err)
	}
}

func TestSchemasServeManyAtOnce(t *testing.T) {
	var schemas ledger.Schemas
	done := make(chan error)
	for n := range 8 {
		go func() {
			var err error
			for i := range 100 { // more than the cache holds
				schema := json.RawMessage(fmt.Sprintf(`{"maximum":%d}`, i))
				err = errors.Join(err, schemas.Check(schema, []byte("-1")))
				if schemas.Check(schema, []byte("1000")) == nil {
					err = errors.Join(err, fmt.Errorf("worker %d: 1000 passed a maximum of %d", n, i))
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestOutcomesReadAsPeopleAreTold(t *testing.T) {
	now := start()
	for want, i := range map[string]ledger.Intent{
		"committed":                     {State: ledger.StateCommitted},
		"abandoned, took effect later":  {State: ledger.StateAbandoned, AbandonedAs: ledger.Unknown, LateEvidence: json.RawMessage("{}")},
		"unknown, do not retry":         {State: ledger.StateAbandoned, AbandonedAs: ledger.Unknown},
		"abandoned: never sent":         {State: ledger.StateAbandoned, AbandonedAs: ledger.NeverSent},
		"held as unknown, do not retry": {State: ledger.StateDispatched, HeldAt: now, AcceptedAt: now},
		"accepted, not final yet":       {State: ledger.StateDispatched, AcceptedAt: now},
		"in progress":                   {State: ledger.StateIntent},
	} {
		if got := i.Outcome(); got != want {
			t.Errorf("outcome reads %q, want %q", got, want)
		}
	}
}

func TestChannelSendsOnlyWhenOn(t *testing.T) {
	for flag, want := range map[ledger.Flag]bool{ledger.FlagOn: true, ledger.FlagShadow: true, ledger.FlagPaused: false, ledger.FlagOff: false, "": false} {
		if got := (ledger.ChannelRow{Flag: flag}).Sends(); got != want {
			t.Errorf("%q sends: %v", flag, got)
		}
		if (ledger.ChannelRow{Flag: flag, Paused: true}).Sends() {
			t.Errorf("%q sends though paused", flag)
		}
	}
}

func TestStampedSheetKeepsTheWeakestReading(t *testing.T) {
	first := strong()
	first.ProbeHorizon = channel.Duration(time.Hour)
	second := forEver()
	second.SettleTime, second.ProbeHorizon = channel.Duration(time.Second), 0
	s := newShelf().stamped(t, first)
	s.must(t, ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofResend, Policy: true})
	s.must(t, fenceMove())
	s.must(t, stampMove(s.row.Fence(), second))
	got := s.row.Sheet
	if got.Replay != channel.ReplayNever || got.SettleTime != first.SettleTime || got.ProbeHorizon != first.ProbeHorizon || !got.NegativeProof {
		t.Errorf("over two attempts the sheet reads %+v", got)
	}
	_, err := s.move(ledger.Reopen{Fence: s.row.Fence(), Proof: ledger.ProofReplaySafe})
	wantRule(t, err, "token-life")
}
