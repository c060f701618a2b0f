package receipt_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestFormatDoesNotDriftFromGoldenReceipts(t *testing.T) {
	held := sentMail(t)
	held.Outcome, held.Established, held.ExternalRef = receipt.Held, "", nil
	held.Reason = "no probe can tell whether the mail was taken"
	abandoned := sentMail(t)
	abandoned.Outcome, abandoned.Established = receipt.Abandoned, receipt.ByProbe
	abandoned.AbandonedAs, abandoned.Reason = receipt.FailedOutside, "reverted"
	late := sentMail(t)
	late.Outcome, late.Established, late.AbandonedAs = receipt.Late, receipt.ByLate, receipt.Unknown

	issuer := newIssuer(t)
	var got bytes.Buffer
	out := receipt.NewWriter(&got)
	for _, e := range []receipt.Effect{sentMail(t), held, abandoned, late} {
		if err := out.Write(issue(t, issuer, e).Envelope); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "golden.jsonl")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := receipt.WritePublicKey(filepath.Join("testdata", "golden.pub.pem"), fixedKey(t, 1).Public()); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("issued receipts differ from %s: other programs hold receipts in that form\n got %s\nwant %s", golden, got.Bytes(), want)
	}
	ring, err := receipt.LoadKeyRing(filepath.Join("testdata", "golden.pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	tally, err := receipt.VerifyAll(bytes.NewReader(want), receipt.VerifyOptions{Keys: ring, Issuer: issuerName}, nil)
	if err != nil || tally != (receipt.Tally{Verified: 4}) {
		t.Fatalf("golden receipts: %+v, %v", tally, err)
	}
}

func TestDocumentHasTheFieldsOfItsSchemaAndNoOther(t *testing.T) {
	r := issue(t, newIssuer(t), sentMail(t))
	doc := decode(t, openUnchecked(t, r.Envelope))
	spore := doc["spore"].(map[string]any)
	wantKeys(t, doc, "schemaVersion receiptId spore issuer issuedAt provenance digest verificationStatus")
	wantKeys(t, spore, "schemaVersion subjectKey kind payload contentHash hashAlg source capturedAt")
	for name, want := range map[string]any{
		"schemaVersion": "dreamnet.receipt.v1", "issuer": issuerName, "verificationStatus": "unverified",
		"issuedAt": "2026-03-04T05:06:07.891Z", "receiptId": r.ID, "digest": r.Digest,
	} {
		if doc[name] != want {
			t.Errorf("%s is %v, want %v", name, doc[name], want)
		}
	}
	for name, want := range map[string]any{
		"schemaVersion": "dreamnet.spore.v0", "kind": "effect.committed", "subjectKey": "mail:3f0a:9b1c",
		"hashAlg": "sha256:dreamnet-sorted-json:v0", "source": "pawl", "capturedAt": "2026-03-04T05:06:00.900Z",
	} {
		if spore[name] != want {
			t.Errorf("spore.%s is %v, want %v", name, spore[name], want)
		}
	}
	if r.IssuedAt != issuedAt {
		t.Errorf("IssuedAt is %v, want %v", r.IssuedAt, issuedAt)
	}
}

func wantKeys(t *testing.T, got map[string]any, want string) {
	t.Helper()
	names := strings.Fields(want)
	for _, name := range names {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if len(got) != len(names) {
		t.Errorf("has %d members, want %d: %v", len(got), len(names), got)
	}
}

// The digests are rebuilt here from the text of the format, not by its code.
func TestDigestsAreHashesOfTheTextTheFormatNames(t *testing.T) {
	r := issue(t, newIssuer(t), sentMail(t))
	body := openUnchecked(t, r.Envelope)
	var doc struct {
		Spore struct {
			Payload     json.RawMessage
			ContentHash string
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	stamp := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "sha256:dreamnet-sorted-json:v0:" + hex.EncodeToString(sum[:])
	}
	content := stamp(`{"kind":"effect.committed","payload":` + string(doc.Spore.Payload) + `,"subjectKey":"mail:3f0a:9b1c"}`)
	if doc.Spore.ContentHash != content {
		t.Errorf("contentHash is %s, want %s", doc.Spore.ContentHash, content)
	}
	digest := stamp(`{"contentHash":"` + content + `","issuer":"organism:example:main","kind":"effect.committed","subjectKey":"mail:3f0a:9b1c"}`)
	if r.Digest != digest {
		t.Errorf("digest is %s, want %s", r.Digest, digest)
	}
	if again, err := canonical.Transform(body); err != nil || !bytes.Equal(again, body) {
		t.Errorf("document is not in canonical form: %v", err)
	}
	if again, err := canonical.Transform(r.Envelope); err != nil || !bytes.Equal(again, r.Envelope) {
		t.Errorf("envelope is not in canonical form: %v", err)
	}
}

func TestIssuingAgainGivesNewIDAndSameDigest(t *testing.T) {
	clock := issuedAt
	issuer := newIssuer(t, func(o *receipt.Options) {
		o.Now = func() time.Time { clock = clock.Add(time.Hour); return clock }
		o.NewID = nil
	})
	first, second := issue(t, issuer, sentMail(t)), issue(t, issuer, sentMail(t))
	if first.ID == second.ID {
		t.Error("two issues share an id")
	}
	if first.Digest != second.Digest {
		t.Error("the same content gave two digests")
	}
	if first.IssuedAt.Equal(second.IssuedAt) {
		t.Error("the clock was not used")
	}
	if id, err := uuid.Parse(first.ID); err != nil || id.Version() != 7 {
		t.Errorf("id %s is not a time-ordered UUID", first.ID)
	}
	other := sentMail(t)
	other.ExternalRef = json.RawMessage(`{"queueId":"other"}`)
	if issue(t, issuer, other).Digest == first.Digest {
		t.Error("the digest does not cover the evidence")
	}
	other = sentMail(t)
	other.EffectKey += "x"
	if issue(t, issuer, other).Digest == first.Digest {
		t.Error("the digest does not cover the effect key")
	}
}

func TestReceiptSaysWhatItDoesNotProve(t *testing.T) {
	issuer := newIssuer(t)
	unknown := sentMail(t)
	unknown.Outcome, unknown.AbandonedAs = receipt.Abandoned, receipt.Unknown
	held := sentMail(t)
	held.Outcome = receipt.Held
	person := sentMail(t)
	person.Established, person.By, person.ExternalRef = receipt.ByPerson, "dana", nil
	for _, c := range []struct {
		name   string
		effect receipt.Effect
		want   string
	}{
		{"abandoned as unknown", unknown, "unknown; do not retry"},
		{"committed", sentMail(t), "read or acted"},
		{"held", held, "may have; do not retry"},
		{"person", person, "beyond the word of the person"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := payloadOf(t, issue(t, issuer, c.effect))["doesNotProve"].([]any)
			for _, line := range list {
				if strings.Contains(line.(string), c.want) {
					return
				}
			}
			t.Errorf("doesNotProve lacks %q: %v", c.want, list)
		})
	}
}

func TestNothingKnownIsNullAndNotAbsent(t *testing.T) {
	e := sentMail(t)
	e.Outcome, e.Established = receipt.Held, ""
	e.ExternalRef, e.Approval, e.TokenDigest = nil, nil, ""
	e.FirstSentAt, e.SentAt = time.Time{}, time.Time{}
	p := payloadOf(t, issue(t, newIssuer(t), e))
	for _, name := range []string{"externalRef", "approval", "tokenDigest", "established", "by", "reason", "abandonedAs", "firstSentAt", "sentAt"} {
		if v, ok := p[name]; !ok || v != nil {
			t.Errorf("%s is %v (there: %t), want null", name, v, ok)
		}
	}
}

func TestUnusableOptionsAreRefusedByField(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*receipt.Options)
	}{
		{"Key", func(o *receipt.Options) { o.Key = receipt.Key{} }},
		{"Name", func(o *receipt.Options) { o.Name = "" }},
		{"Name", func(o *receipt.Options) { o.Name = "a\xffb" }},
		{"Source", func(o *receipt.Options) { o.Source = "\xff" }},
	} {
		o := receipt.Options{Name: issuerName, Key: fixedKey(t, 1)}
		c.change(&o)
		_, err := receipt.NewIssuer(o)
		wantIssueError(t, err, c.field)
	}
}

func TestIssuerWithoutIDsOrConstructionFailsTyped(t *testing.T) {
	broken := errors.New("no entropy")
	issuer := newIssuer(t, func(o *receipt.Options) {
		o.NewID = func() (uuid.UUID, error) { return uuid.Nil, broken }
	})
	_, err := issuer.Issue(sentMail(t))
	wantIssueError(t, err, "")
	if !errors.Is(err, broken) {
		t.Errorf("cause is lost: %v", err)
	}
	_, err = new(receipt.Issuer).Issue(sentMail(t))
	wantIssueError(t, err, "")
	_, err = (*receipt.Issuer)(nil).Issue(sentMail(t))
	wantIssueError(t, err, "")
}

func wantIssueError(t *testing.T, err error, field string) {
	t.Helper()
	var typed *receipt.IssueError
	if !errors.As(err, &typed) {
		t.Errorf("error is %T %v, want *IssueError", err, err)
		return
	}
	if typed.Field != field {
		t.Errorf("error names field %q, want %q: %v", typed.Field, field, err)
	}
}
