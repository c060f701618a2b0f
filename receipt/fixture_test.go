package receipt_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

const issuerName = "organism:example:main"

var issuedAt = time.Date(2026, 3, 4, 5, 6, 7, 891_000_000, time.UTC)

// fixedKey is the key of the golden receipt, the same on every machine.
func fixedKey(t testing.TB, fill byte) receipt.Key {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = fill
	}
	key, err := receipt.NewKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// countedIDs gives receipt ids that follow each other.
func countedIDs() func() (uuid.UUID, error) {
	var n atomic.Uint64
	return func() (uuid.UUID, error) {
		return uuid.Parse(fmt.Sprintf("0195a2b0-0000-7000-8000-%012x", n.Add(1)))
	}
}

func newIssuer(t testing.TB, change ...func(*receipt.Options)) *receipt.Issuer {
	t.Helper()
	o := receipt.Options{
		Name:  issuerName,
		Key:   fixedKey(t, 1),
		Now:   func() time.Time { return issuedAt },
		NewID: countedIDs(),
	}
	for _, c := range change {
		c(&o)
	}
	issuer, err := receipt.NewIssuer(o)
	if err != nil {
		t.Fatal(err)
	}
	return issuer
}

func ringOf(t testing.TB, keys ...receipt.Key) *receipt.KeyRing {
	t.Helper()
	ring, err := receipt.NewKeyRing()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := ring.Add(k.Public()); err != nil {
			t.Fatal(err)
		}
	}
	return ring
}

func stampedDigest(t testing.TB, value string) string {
	t.Helper()
	d, err := canonical.Sum([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return d.Stamped()
}

// sentMail is a committed effect with every field filled.
func sentMail(t testing.TB) receipt.Effect {
	at := func(ms int) time.Time {
		return time.Date(2026, 3, 4, 5, 6, 0, ms*1_000_000+250_000, time.UTC)
	}
	return receipt.Effect{
		Outcome:       receipt.Committed,
		RunID:         "6f1d2c3b-1111-8222-8333-444455556666",
		EffectKey:     "mail:3f0a:9b1c",
		Channel:       "mail/marketing",
		Kind:          "mail",
		PayloadDigest: stampedDigest(t, `{"subject":"Hello","body":"…"}`),
		ExternalRef:   json.RawMessage(`{"queueId":"4Xk2","response":"250 2.0.0 Ok: queued","size":1234.5}`),
		TokenDigest:   "sha256:" + strings.Repeat("ab", 32),
		Approval:      json.RawMessage(`{"reference":"ticket-17","by":"dana"}`),
		Established:   receipt.BySend,
		Attempt:       1,
		Starts:        2,
		FenceNumber:   7,
		LedgerEpoch:   1,
		LedgerID:      "ledger-a",
		CreatedAt:     at(100),
		FirstSentAt:   at(300),
		SentAt:        at(300),
		At:            at(900),
	}
}

func issue(t testing.TB, issuer *receipt.Issuer, e receipt.Effect) receipt.Receipt {
	t.Helper()
	r, err := issuer.Issue(e)
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	return r
}

// openUnchecked takes the document out of an envelope without package receipt.
func openUnchecked(t testing.TB, envelope []byte) []byte {
	t.Helper()
	var e struct{ Payload string }
	if err := json.Unmarshal(envelope, &e); err != nil {
		t.Fatal(err)
	}
	doc, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func decode(t testing.TB, doc []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func payloadOf(t testing.TB, r receipt.Receipt) map[string]any {
	t.Helper()
	doc := decode(t, openUnchecked(t, r.Envelope))
	return doc["spore"].(map[string]any)["payload"].(map[string]any)
}

func wantStatus(t *testing.T, v receipt.Verdict, name receipt.Check, want receipt.Status) {
	t.Helper()
	if got := v.Result(name); got.Status != want {
		t.Errorf("%s is %s (%s), want %s", name, got.Status, got.Detail, want)
	}
}
