package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlworks/pawl/canonical"
)

// reading is a document whose schema is right: what it claims, and the checks
// that recompute its digests.
type reading struct {
	claims     Claims
	subjectHex string       // bare content hash
	content    func() error // nil: the content is not in the document
	identity   func() error // nil: no digest covers the issuer
}

// read takes the known schemas apart. The members are canonical, which is why
// the hashes below are of parts as they stand.
func (v *Verdict) read(have map[string]json.RawMessage) (reading, error) {
	switch v.Schema {
	case SchemaReceipt:
		return readReceipt(have)
	case SchemaInterchange:
		return readInterchange(have)
	case SchemaProofArtifact:
		return readProofArtifact(have)
	}
	return reading{}, fmt.Errorf("schemaVersion: %.64q has no reader", v.Schema)
}

func readReceipt(have map[string]json.RawMessage) (reading, error) {
	f := fields{have: have}
	f.only("schemaVersion", "receiptId", "spore", "issuer", "issuedAt", "provenance", "digest", "verificationStatus")
	claims := Claims{
		ReceiptID: f.id("receiptId"),
		Issuer:    f.text("issuer"),
		Digest:    f.text("digest"),
		IssuedAt:  f.moment("issuedAt"),
	}
	// A document that calls itself verified claims what only a verifier knows.
	f.constant("verificationStatus", unverified)

	s := f.object("spore")
	s.only("schemaVersion", "subjectKey", "kind", "payload", "contentHash", "hashAlg", "source", "capturedAt")
	s.constant("schemaVersion", SchemaSpore)
	s.constant("hashAlg", canonical.Algorithm)
	claims.Subject = s.text("subjectKey")
	claims.Kind = s.text("kind")
	payload := s.value("payload")
	contentHash := s.text("contentHash")
	s.text("source")
	s.moment("capturedAt")
	f.merge(s)

	p := f.object("provenance")
	p.only("method", "endpoint", "query")
	p.text("method")
	p.optional("endpoint")
	p.optional("query")
	f.merge(p)
	if f.err != nil {
		return reading{}, f.err
	}
	if err := checkEffect(claims, payload); err != nil {
		return reading{}, err
	}
	return reading{
		claims:     claims,
		subjectHex: strings.TrimPrefix(contentHash, canonical.Algorithm+":"),
		content: func() error {
			if canonical.SumBytes(content(claims.Kind, claims.Subject, payload)).Stamped() != contentHash {
				return errors.New("spore.contentHash is not the hash of kind, payload and subjectKey")
			}
			return nil
		},
		identity: func() error {
			if issueDigest(contentHash, claims.Issuer, claims.Kind, claims.Subject).Stamped() != claims.Digest {
				return errors.New("digest is not the hash of contentHash, issuer, kind and subjectKey")
			}
			return nil
		},
	}, nil
}

func readInterchange(have map[string]json.RawMessage) (reading, error) {
	f := fields{have: have}
	f.only("schemaVersion", "receiptId", "issuerId", "subjectHash", "proofArtifactId", "timestamp", "digest")
	claims := Claims{
		ReceiptID: f.text("receiptId"),
		Issuer:    f.text("issuerId"),
		Subject:   f.text("subjectHash"),
		Digest:    f.text("digest"),
		IssuedAt:  f.moment("timestamp"),
	}
	f.optional("proofArtifactId")
	if f.err == nil && !bareHash(claims.Subject) {
		f.fail("subjectHash", "must be 64 lower-case hex digits")
	}
	if f.err != nil {
		return reading{}, f.err
	}
	return reading{
		claims:     claims,
		subjectHex: claims.Subject,
		identity: func() error {
			if interchangeDigest(claims.Issuer, claims.Subject).Hex() != claims.Digest {
				return errors.New("digest is not the hash of issuer and subjectHash")
			}
			return nil
		},
	}, nil
}

func readProofArtifact(have map[string]json.RawMessage) (reading, error) {
	f := fields{have: have}
	f.only("schemaVersion", "artifactId", "creatorId", "artifactType", "evidenceData", "contentHash", "signature", "createdIso")
	claims := Claims{
		ReceiptID: f.text("artifactId"),
		Issuer:    f.text("creatorId"),
		Kind:      f.text("artifactType"),
		Digest:    f.text("contentHash"),
		IssuedAt:  f.moment("createdIso"),
	}
	claims.Subject = claims.Digest
	evidence := f.value("evidenceData")
	f.object("evidenceData")
	f.optional("signature")
	if f.err != nil {
		return reading{}, f.err
	}
	return reading{
		claims:     claims,
		subjectHex: claims.Digest,
		content: func() error {
			if canonical.SumBytes(evidence).Hex() != claims.Digest {
				return errors.New("contentHash is not the hash of evidenceData")
			}
			return nil
		},
	}, nil
}

// checkEffect holds a payload that calls itself ours to the rest of the
// receipt: the same key and outcome must be said inside and outside.
func checkEffect(claims Claims, payload json.RawMessage) error {
	if !strings.HasPrefix(claims.Kind, kindPrefix) {
		return nil
	}
	have, err := objectMembers(payload)
	if err != nil {
		return fmt.Errorf("spore.payload: %w", err)
	}
	// Another issuer's effect has a payload of its own, and its hash covers it.
	// Any version of ours but the known one is refused.
	if raw := string(have["schemaVersion"]); !strings.HasPrefix(raw, `"pawl.effect.`) {
		return nil
	}
	f := fields{at: "spore.payload.", have: have}
	f.only("schemaVersion", "outcome", "runId", "effectKey", "channel", "kind", "payloadDigest", "tokenDigest",
		"established", "by", "reason", "abandonedAs", "attempt", "starts", "fenceNumber", "ledgerEpoch", "ledgerId",
		"createdAt", "firstSentAt", "sentAt", "at", "externalRef", "externalRefRaw", "approval", "approvalRaw", "doesNotProve")
	f.constant("schemaVersion", SchemaEffect)
	f.constant("effectKey", claims.Subject)
	f.constant("outcome", strings.TrimPrefix(claims.Kind, kindPrefix))
	for _, name := range []string{"runId", "channel", "kind", "payloadDigest", "ledgerId"} {
		f.text(name)
	}
	for _, name := range []string{"tokenDigest", "established", "by", "reason", "abandonedAs", "attempt", "starts",
		"fenceNumber", "ledgerEpoch", "firstSentAt", "sentAt", "externalRef", "approval", "doesNotProve"} {
		f.value(name)
	}
	f.moment("createdAt")
	f.moment("at")
	return f.err
}

func bareHash(text string) bool {
	if len(text) != 64 {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
