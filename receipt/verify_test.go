package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

// edit changes a decoded document; digests are left as they were.
type edit func(doc map[string]any)

func set(path string, value any) edit {
	return func(doc map[string]any) {
		at := doc
		parts := strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			at = at[p].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
}

func drop(path string) edit {
	return func(doc map[string]any) {
		at := doc
		parts := strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			at = at[p].(map[string]any)
		}
		delete(at, parts[len(parts)-1])
	}
}

func edited(t testing.TB, plain []byte, edits ...edit) []byte {
	t.Helper()
	doc := decode(t, plain)
	for _, e := range edits {
		e(doc)
	}
	out, err := canonical.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGenuineReceiptPassesAndSaysWhatWasNotChecked(t *testing.T) {
	key := fixedKey(t, 1)
	r := issue(t, newIssuer(t), sentMail(t))

	v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: ringOf(t, key), Issuer: issuerName})
	if !v.OK || v.Failed != "" || v.Schema != receipt.SchemaReceipt {
		t.Fatalf("envelope: %+v", v)
	}
	for _, name := range []receipt.Check{receipt.CheckSchema, receipt.CheckContent, receipt.CheckIdentity, receipt.CheckSignature} {
		wantStatus(t, v, name, receipt.Passed)
	}
	wantStatus(t, v, receipt.CheckFreshness, receipt.NotChecked)
	want := receipt.Claims{
		ReceiptID: r.ID, Issuer: issuerName, Kind: "effect.committed", Subject: "mail:3f0a:9b1c",
		Digest: r.Digest, IssuedAt: issuedAt, KeyID: key.ID(),
	}
	if v.Claims != want {
		t.Errorf("claims are %+v, want %+v", v.Claims, want)
	}

	v = receipt.Verify(openUnchecked(t, r.Envelope), receipt.VerifyOptions{})
	if !v.OK {
		t.Fatalf("plain: %s", v)
	}
	wantStatus(t, v, receipt.CheckSignature, receipt.NotChecked)
	if got := v.String(); !strings.Contains(got, "not checked: signature, freshness") {
		t.Errorf("verdict does not say what it skipped: %s", got)
	}
}

func TestPlainReceiptMayBeLaidOutFreely(t *testing.T) {
	plain := openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, plain, "", "\t"); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	if v := receipt.Verify(pretty.Bytes(), receipt.VerifyOptions{}); !v.OK {
		t.Error(v)
	}
}

func TestPlainReceiptThatDoesNotRecomputeIsRejectedByCheck(t *testing.T) {
	plain := openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	otherHash := stampedDigest(t, `1`)
	for _, c := range []struct {
		name string
		edit edit
		want receipt.Check
	}{
		{"content: evidence", set("spore.payload.externalRef", "another"), receipt.CheckContent},
		{"content: hash", set("spore.contentHash", otherHash), receipt.CheckContent},
		{"content: payload time", set("spore.payload.sentAt", nil), receipt.CheckContent},
		{"identity: digest", set("digest", otherHash), receipt.CheckIdentity},
		{"identity: digest bare", set("digest", strings.Repeat("0", 64)), receipt.CheckIdentity},
		{"identity: issuer", set("issuer", "organism:attacker:evil"), receipt.CheckIdentity},
		{"schema: algorithm", set("spore.hashAlg", "sha256:rfc8785"), receipt.CheckSchema},
		{"schema: effect key inside differs", set("spore.payload.effectKey", "mail:other"), receipt.CheckSchema},
		{"schema: extra field", set("note", "hello"), receipt.CheckSchema},
		{"schema: extra spore field", set("spore.note", "hello"), receipt.CheckSchema},
		{"schema: extra unnamed field", set("", "hello"), receipt.CheckSchema},
		{"schema: id empty", set("receiptId", ""), receipt.CheckSchema},
		{"schema: id not a UUID", set("receiptId", "receipt:abc"), receipt.CheckSchema},
		{"schema: issuer a number", set("issuer", 7), receipt.CheckSchema},
		{"schema: issuer null", set("issuer", nil), receipt.CheckSchema},
		{"schema: outcome inside differs", set("spore.payload.outcome", "held"), receipt.CheckSchema},
		{"schema: payload version", set("spore.payload.schemaVersion", "pawl.effect.v2"), receipt.CheckSchema},
		{"schema: spore a list", set("spore", []any{}), receipt.CheckSchema},
		{"schema: spore version", set("spore.schemaVersion", "dreamnet.spore.v1"), receipt.CheckSchema},
		{"schema: time local", set("issuedAt", "2026-03-04T05:06:07+01:00"), receipt.CheckSchema},
		{"schema: time nonsense", set("issuedAt", "yesterday"), receipt.CheckSchema},
		{"schema: time with comma", set("issuedAt", "2026-03-04T05:06:07,891Z"), receipt.CheckSchema},
		{"schema: verified by itself", set("verificationStatus", "verified"), receipt.CheckSchema},
		{"schema: version", set("schemaVersion", "dreamnet.receipt.v2"), receipt.CheckSchema},
		{"schema: version a list", set("schemaVersion", []any{}), receipt.CheckSchema},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := receipt.Verify(edited(t, plain, c.edit), receipt.VerifyOptions{})
			if v.OK || v.Failed != c.want {
				t.Errorf("%s, want a failed %s", v, c.want)
			}
		})
	}
	for name := range decode(t, plain) {
		if v := receipt.Verify(edited(t, plain, drop(name)), receipt.VerifyOptions{}); v.OK || v.Failed != receipt.CheckSchema {
			t.Errorf("without %s: %s", name, v)
		}
	}
	for name := range decode(t, plain)["spore"].(map[string]any) {
		if v := receipt.Verify(edited(t, plain, drop("spore."+name)), receipt.VerifyOptions{}); v.OK || v.Failed != receipt.CheckSchema {
			t.Errorf("without spore.%s: %s", name, v)
		}
	}
	for name := range decode(t, plain)["spore"].(map[string]any)["payload"].(map[string]any) {
		if v := receipt.Verify(edited(t, plain, drop("spore.payload."+name)), receipt.VerifyOptions{}); v.OK {
			t.Errorf("without spore.payload.%s: %s", name, v)
		}
	}
}

func TestAmbiguousTextIsRejectedBeforeItIsRead(t *testing.T) {
	plain := string(openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope))
	for _, c := range []struct{ name, doc string }{
		{"duplicate name", strings.Replace(plain, `"issuer":`, `"issuer":"organism:example:main","issuer":`, 1)},
		{"duplicate name, escaped", strings.Replace(plain, `"issuer":`, `"issu\u0065r":"organism:example:main","issuer":`, 1)},
		{"duplicate name, deep", strings.Replace(plain, `"queueId":`, `"queueId":"4Xk2","queueId":`, 1)},
		{"empty", ""},
		{"list", "[" + plain + "]"},
		{"lone surrogate in the issuer", strings.Replace(plain, `organism:example:main`, `organism:\ud800`, 1)},
		{"not UTF-8", strings.Replace(plain, `ledger-a`, "ledger-\xff", 1)},
		{"null", "null"},
		{"number overflows", strings.Replace(plain, `1234.5`, "1e999", 1)},
		{"open end", plain[:len(plain)-1]},
		{"text", `"text"`},
		{"too large", plain + strings.Repeat(" ", receipt.MaxDocument)},
		{"trailing brace", plain + "}"},
		{"trailing document", plain + plain},
		{"trailing NUL", plain + "\x00"},
		{"with byte order mark", "\ufeff" + plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := receipt.Verify([]byte(c.doc), receipt.VerifyOptions{})
			if v.OK || v.Failed != receipt.CheckSchema {
				t.Error(v)
			}
		})
	}
	if v := (receipt.Verdict{}); v.OK {
		t.Error("the zero verdict is OK")
	}
}

func TestSignedCheckIsNotAvoidedByLeavingTheEnvelope(t *testing.T) {
	keys := ringOf(t, fixedKey(t, 1))
	plain := openUnchecked(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	v := receipt.Verify(plain, receipt.VerifyOptions{Keys: keys})
	if v.OK || v.Failed != receipt.CheckSignature {
		t.Error(v)
	}
	v = receipt.Verify(plain, receipt.VerifyOptions{Keys: keys, AllowUnsigned: true})
	if !v.OK {
		t.Error(v)
	}
	wantStatus(t, v, receipt.CheckSignature, receipt.NotChecked)
}

func TestEnvelopeNeedsATrustedKey(t *testing.T) {
	oldKey, newKey, stranger := fixedKey(t, 1), fixedKey(t, 2), fixedKey(t, 3)
	byOld := issue(t, newIssuer(t), sentMail(t)).Envelope
	byNew := issue(t, newIssuer(t, func(o *receipt.Options) { o.Key = newKey }), sentMail(t)).Envelope
	for _, c := range []struct {
		name     string
		ring     *receipt.KeyRing
		old, new bool
	}{
		{"after rotation, old key kept", ringOf(t, oldKey, newKey), true, true},
		{"empty ring", ringOf(t), false, false},
		{"no ring", nil, false, false},
		{"old key dropped", ringOf(t, newKey), false, true},
		{"strangers only", ringOf(t, stranger), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, e := range []struct {
				doc  []byte
				want bool
			}{{byOld, c.old}, {byNew, c.new}} {
				v := receipt.Verify(e.doc, receipt.VerifyOptions{Keys: c.ring, AllowUnsigned: true})
				if v.OK != e.want {
					t.Errorf("%s, want ok %t", v, e.want)
				}
				if !v.OK && v.Failed != receipt.CheckSignature {
					t.Errorf("failed %s, want signature", v.Failed)
				}
			}
		})
	}
}

func TestKeyOfOneIssuerDoesNotSignForAnother(t *testing.T) {
	key := fixedKey(t, 1)
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	for _, c := range []struct {
		name    string
		issuers [][]string
		want    bool
	}{
		{"added twice", [][]string{{"organism:other:main"}, {issuerName}}, true},
		{"another's key", [][]string{{"organism:other:main"}}, false},
		{"any issuer", [][]string{nil}, true},
		{"any issuer and a named one", [][]string{{"organism:other:main"}, nil}, true},
		{"its own", [][]string{{issuerName}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ring := &receipt.KeyRing{}
			for _, names := range c.issuers {
				if err := ring.Add(key.Public(), names...); err != nil {
					t.Fatal(err)
				}
			}
			v := receipt.Verify(envelope, receipt.VerifyOptions{Keys: ring})
			if v.OK != c.want {
				t.Errorf("%s, want ok %t", v, c.want)
			}
			if !v.OK && v.Failed != receipt.CheckIdentity {
				t.Errorf("failed %s, want identity", v.Failed)
			}
		})
	}
	if err := (&receipt.KeyRing{}).Add(key.Public(), ""); err == nil {
		t.Error("an empty issuer was accepted: it would read as any")
	}
}

func TestExpectedIssuerAndSubjectAreHeldTo(t *testing.T) {
	keys := ringOf(t, fixedKey(t, 1))
	r := issue(t, newIssuer(t), sentMail(t))
	v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys, Issuer: "organism:example:other"})
	if v.OK || v.Failed != receipt.CheckIdentity {
		t.Error(v)
	}
	payload, err := json.Marshal(payloadOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	subject := []byte(`{"subjectKey":"mail:3f0a:9b1c","kind":"effect.committed","payload":` + string(payload) + `}`)
	if v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys, Subject: subject}); !v.OK {
		t.Error(v)
	}
	for _, wrong := range []string{`{}`, `not JSON`, ``} {
		v := receipt.Verify(r.Envelope, receipt.VerifyOptions{Keys: keys, Subject: []byte(wrong)})
		if v.OK || v.Failed != receipt.CheckContent {
			t.Errorf("subject %q: %s", wrong, v)
		}
	}
}

func TestOldAndFutureReceiptsAreNotFresh(t *testing.T) {
	keys := ringOf(t, fixedKey(t, 1))
	envelope := issue(t, newIssuer(t), sentMail(t)).Envelope
	for _, c := range []struct {
		name string
		now  time.Duration // after issue
		want bool
	}{
		{"a second too old", time.Hour + receipt.DefaultClockAllowance + time.Second, false},
		{"at once", 0, true},
		{"at the limit", time.Hour, true},
		{"clock a little behind", -receipt.DefaultClockAllowance, true},
		{"from the future", -time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := receipt.Verify(envelope, receipt.VerifyOptions{
				Keys: keys, MaxAge: time.Hour, Now: func() time.Time { return issuedAt.Add(c.now) },
			})
			if v.OK != c.want || !c.want && v.Failed != receipt.CheckFreshness {
				t.Error(v)
			}
		})
	}
}

func TestSealSignsOnlyWhatVerifiesAndIsOurs(t *testing.T) {
	issuer, keys := newIssuer(t), ringOf(t, fixedKey(t, 1))
	plain := openUnchecked(t, issue(t, issuer, sentMail(t)).Envelope)
	sealed, err := issuer.Seal(append(plain, '\n'))
	if err != nil {
		t.Fatal(err)
	}
	if v := receipt.Verify(sealed, receipt.VerifyOptions{Keys: keys}); !v.OK {
		t.Error(v)
	}
	if _, err := issuer.Seal(edited(t, plain, set("digest", "x"))); err == nil {
		t.Error("sealed a document that does not recompute")
	}
	stranger := newIssuer(t, func(o *receipt.Options) { o.Name = "organism:example:other" })
	if _, err := stranger.Seal(plain); err == nil {
		t.Error("sealed another issuer's document")
	}
	if _, err := issuer.Seal(sealed); err == nil {
		t.Error("sealed an envelope")
	}
}

func TestUnwrapGivesNothingThatWasRejected(t *testing.T) {
	r := issue(t, newIssuer(t), sentMail(t))
	doc, err := receipt.Unwrap(r.Envelope, receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))})
	if err != nil || !bytes.Equal(doc, openUnchecked(t, r.Envelope)) {
		t.Errorf("unwrap: %v", err)
	}
	_, err = receipt.Unwrap(r.Envelope, receipt.VerifyOptions{})
	var rejected *receipt.RejectedError
	if !errors.As(err, &rejected) || rejected.Verdict.Failed != receipt.CheckSignature {
		t.Errorf("error is %v", err)
	}
}
