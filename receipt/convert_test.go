package receipt_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

func convertAll(t testing.TB, envelope []byte) (interchange, artifact []byte) {
	t.Helper()
	opts := receipt.VerifyOptions{Keys: ringOf(t, fixedKey(t, 1))}
	interchange, err := receipt.ToInterchange(envelope, opts)
	if err != nil {
		t.Fatal(err)
	}
	artifact, err = receipt.ToProofArtifact(envelope, opts)
	if err != nil {
		t.Fatal(err)
	}
	return interchange, artifact
}

func TestConversionsAgreeWithTheReceiptAndEachOther(t *testing.T) {
	r := issue(t, newIssuer(t), sentMail(t))
	rawInterchange, rawArtifact := convertAll(t, r.Envelope)
	source, interchange, artifact := decode(t, openUnchecked(t, r.Envelope)), decode(t, rawInterchange), decode(t, rawArtifact)
	wantKeys(t, interchange, "schemaVersion receiptId issuerId subjectHash proofArtifactId timestamp digest")
	wantKeys(t, artifact, "schemaVersion artifactId creatorId artifactType evidenceData contentHash createdIso")

	spore := source["spore"].(map[string]any)
	bare := strings.TrimPrefix(spore["contentHash"].(string), "sha256:dreamnet-sorted-json:v0:")
	digest, err := canonical.Sum([]byte(`{"issuer":"` + issuerName + `","subjectHash":"` + bare + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, got, want any }{
		{"artifact: content hash", artifact["contentHash"], bare},
		{"artifact: creator", artifact["creatorId"], issuerName},
		{"artifact: type", artifact["artifactType"], "effect.committed"},
		{"interchange: artifact id", interchange["proofArtifactId"], artifact["artifactId"]},
		{"interchange: digest", interchange["digest"], digest.Hex()},
		{"interchange: id", interchange["receiptId"], r.ID},
		{"interchange: issuer", interchange["issuerId"], issuerName},
		{"interchange: subject", interchange["subjectHash"], bare},
		{"interchange: time", interchange["timestamp"], source["issuedAt"]},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}

	subject, err := json.Marshal(artifact["evidenceData"])
	if err != nil {
		t.Fatal(err)
	}
	v := receipt.Verify(rawInterchange, receipt.VerifyOptions{Issuer: issuerName})
	if !v.OK {
		t.Error(v)
	}
	wantStatus(t, v, receipt.CheckContent, receipt.NotChecked)
	wantStatus(t, v, receipt.CheckIdentity, receipt.Passed)
	v = receipt.Verify(rawInterchange, receipt.VerifyOptions{Subject: subject})
	if !v.OK {
		t.Error(v)
	}
	wantStatus(t, v, receipt.CheckContent, receipt.Passed)

	v = receipt.Verify(rawArtifact, receipt.VerifyOptions{})
	if !v.OK {
		t.Error(v)
	}
	wantStatus(t, v, receipt.CheckContent, receipt.Passed)
	wantStatus(t, v, receipt.CheckIdentity, receipt.NotChecked)
}

func TestConvertedFormsTravelSigned(t *testing.T) {
	issuer := newIssuer(t)
	interchange, artifact := convertAll(t, issue(t, issuer, sentMail(t)).Envelope)
	opts := receipt.VerifyOptions{
		Keys: ringOf(t, fixedKey(t, 1)), MaxAge: time.Hour, Now: func() time.Time { return issuedAt.Add(time.Minute) },
	}
	for _, doc := range [][]byte{interchange, artifact} {
		sealed, err := issuer.Seal(doc)
		if err != nil {
			t.Fatal(err)
		}
		v := receipt.Verify(sealed, opts)
		if !v.OK {
			t.Error(v)
		}
		wantStatus(t, v, receipt.CheckSignature, receipt.Passed)
		wantStatus(t, v, receipt.CheckIdentity, receipt.Passed)
		wantStatus(t, v, receipt.CheckFreshness, receipt.Passed)
		for _, m := range mutants(sealed)[:1000] {
			if v := receipt.Verify(m, opts); v.OK {
				t.Fatalf("accepted a changed envelope: %q", m)
			}
		}
	}
}

func TestInterchangeFormsFailClosed(t *testing.T) {
	interchange, artifact := convertAll(t, issue(t, newIssuer(t), sentMail(t)).Envelope)
	for _, c := range []struct {
		name string
		doc  []byte
		edit edit
		want receipt.Check
	}{
		{"artifact: evidence", artifact, set("evidenceData.kind", "forged"), receipt.CheckContent},
		{"artifact: evidence a list", artifact, set("evidenceData", []any{}), receipt.CheckSchema},
		{"artifact: extra field", artifact, set("note", "x"), receipt.CheckSchema},
		{"artifact: hash", artifact, set("contentHash", strings.Repeat("f", 64)), receipt.CheckContent},
		{"artifact: hash stamped", artifact, set("contentHash", stampedDigest(t, "{}")), receipt.CheckContent},
		{"artifact: signature a number", artifact, set("signature", 1), receipt.CheckSchema},
		{"artifact: version", artifact, set("schemaVersion", "proof-artifact.v2"), receipt.CheckSchema},
		{"interchange: artifact id empty", interchange, set("proofArtifactId", ""), receipt.CheckSchema},
		{"interchange: digest", interchange, set("digest", strings.Repeat("f", 64)), receipt.CheckIdentity},
		{"interchange: extra field", interchange, set("note", "x"), receipt.CheckSchema},
		{"interchange: issuer", interchange, set("issuerId", "organism:attacker:evil"), receipt.CheckIdentity},
		{"interchange: subject", interchange, set("subjectHash", strings.Repeat("f", 64)), receipt.CheckIdentity},
		{"interchange: subject not a hash", interchange, set("subjectHash", "abc"), receipt.CheckSchema},
		{"interchange: subject upper case", interchange, set("subjectHash", strings.Repeat("F", 64)), receipt.CheckSchema},
		{"interchange: version", interchange, set("schemaVersion", "receipt.v2"), receipt.CheckSchema},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := receipt.Verify(edited(t, c.doc, c.edit), receipt.VerifyOptions{})
			if v.OK || v.Failed != c.want {
				t.Errorf("%s, want a failed %s", v, c.want)
			}
		})
	}
	for _, doc := range [][]byte{interchange, artifact} {
		for name := range decode(t, doc) {
			if name == "proofArtifactId" {
				continue
			}
			if v := receipt.Verify(edited(t, doc, drop(name)), receipt.VerifyOptions{}); v.OK || v.Failed != receipt.CheckSchema {
				t.Errorf("without %s: %s", name, v)
			}
		}
	}
	if v := receipt.Verify(edited(t, interchange, drop("proofArtifactId")), receipt.VerifyOptions{}); !v.OK {
		t.Errorf("without an artifact: %s", v)
	}
	v := receipt.Verify(edited(t, artifact, set("signature", "anything")), receipt.VerifyOptions{})
	wantStatus(t, v, receipt.CheckSignature, receipt.NotChecked)
}

func TestOnlyAVerifiedReceiptIsConverted(t *testing.T) {
	r := issue(t, newIssuer(t), sentMail(t))
	interchange, _ := convertAll(t, r.Envelope)
	if _, err := receipt.ToProofArtifact(interchange, receipt.VerifyOptions{}); err == nil {
		t.Error("converted what is no dreamnet.receipt.v1")
	}
	var rejected *receipt.RejectedError
	if _, err := receipt.ToInterchange(r.Envelope, receipt.VerifyOptions{}); !errors.As(err, &rejected) {
		t.Errorf("converted without a key: %v", err)
	}
	forged := edited(t, openUnchecked(t, r.Envelope), set("issuer", "organism:attacker:evil"))
	if _, err := receipt.ToInterchange(forged, receipt.VerifyOptions{}); !errors.As(err, &rejected) {
		t.Errorf("converted a forgery: %v", err)
	}
}
