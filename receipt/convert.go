package receipt

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
)

// interchangeDocument is receipt.v1.
type interchangeDocument struct {
	SchemaVersion   string `json:"schemaVersion"`
	ReceiptID       string `json:"receiptId"`
	IssuerID        string `json:"issuerId"`
	SubjectHash     string `json:"subjectHash"`
	ProofArtifactID string `json:"proofArtifactId,omitempty"`
	Timestamp       string `json:"timestamp"`
	Digest          string `json:"digest"`
}

// proofDocument is proof-artifact.v1, without a signature of its own: it can
// travel in an envelope ([Issuer.Seal]).
type proofDocument struct {
	SchemaVersion string          `json:"schemaVersion"`
	ArtifactID    string          `json:"artifactId"`
	CreatorID     string          `json:"creatorId"`
	ArtifactType  string          `json:"artifactType"`
	EvidenceData  json.RawMessage `json:"evidenceData"`
	ContentHash   string          `json:"contentHash"`
	CreatedISO    string          `json:"createdIso"`
}

// ToInterchange converts a dreamnet.receipt.v1 (plain, or in an envelope that
// opts accepts) to the smaller receipt.v1. The receipt keeps its id; the subject
// hash is the bare content hash. It names the proof artifact that
// [ToProofArtifact] makes of the same receipt. The result is canonical JSON and
// unsigned: seal it if it is to prove who issued it.
func ToInterchange(doc []byte, opts VerifyOptions) ([]byte, error) {
	source, err := verifiedReceipt(doc, opts)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", SchemaInterchange, err)
	}
	digest := interchangeDigest(source.Issuer, source.subjectHex())
	return canonical.Marshal(interchangeDocument{
		SchemaVersion:   SchemaInterchange,
		ReceiptID:       source.ReceiptID,
		IssuerID:        source.Issuer,
		SubjectHash:     source.subjectHex(),
		ProofArtifactID: source.artifactID(),
		Timestamp:       source.IssuedAt,
		Digest:          digest.Hex(),
	})
}

// ToProofArtifact converts a dreamnet.receipt.v1 (plain, or in an envelope that
// opts accepts) to a proof-artifact.v1. The evidence data is what the content
// hash covers (kind, payload, subject key), so the artifact's content hash is
// the subject hash of [ToInterchange]. The result is canonical JSON and unsigned.
func ToProofArtifact(doc []byte, opts VerifyOptions) ([]byte, error) {
	source, err := verifiedReceipt(doc, opts)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", SchemaProofArtifact, err)
	}
	return canonical.Marshal(proofDocument{
		SchemaVersion: SchemaProofArtifact,
		ArtifactID:    source.artifactID(),
		CreatorID:     source.Issuer,
		ArtifactType:  source.Spore.Kind,
		EvidenceData:  content(source.Spore.Kind, source.Spore.SubjectKey, source.Spore.Payload),
		ContentHash:   source.subjectHex(),
		CreatedISO:    source.IssuedAt,
	})
}

// Unwrap returns the plain document inside an envelope, or a plain document
// itself, in canonical form, if opts accepts it.
func Unwrap(doc []byte, opts VerifyOptions) ([]byte, error) {
	verdict := Verify(doc, opts)
	if !verdict.OK {
		return nil, &RejectedError{Verdict: verdict}
	}
	canon, have, err := strict(doc)
	if err != nil {
		return nil, err
	}
	if _, plain := have["schemaVersion"]; plain {
		return canon, nil
	}
	env, err := openEnvelope(doc, have)
	if err != nil {
		return nil, err
	}
	return env.document, nil
}

// RejectedError carries the verdict on a document that did not verify.
type RejectedError struct{ Verdict Verdict }

// Error is the verdict in one line.
func (e *RejectedError) Error() string { return "receipt " + e.Verdict.String() }

func verifiedReceipt(doc []byte, opts VerifyOptions) (receiptDocument, error) {
	plain, err := Unwrap(doc, opts)
	if err != nil {
		return receiptDocument{}, err
	}
	var source receiptDocument
	if err := json.Unmarshal(plain, &source); err != nil {
		return receiptDocument{}, fmt.Errorf("read document: %w", err)
	}
	if source.SchemaVersion != SchemaReceipt {
		return receiptDocument{}, errors.New("only a " + SchemaReceipt + " can be converted, this is a " + source.SchemaVersion)
	}
	return source, nil
}

func (d receiptDocument) subjectHex() string { return d.Spore.ContentHash[len(canonical.Algorithm)+1:] }

// artifactID follows from the content hash: both conversions of one receipt
// agree on it, and so do conversions of a receipt issued twice.
func (d receiptDocument) artifactID() string {
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(SchemaProofArtifact+":"+d.subjectHex()), 8).String()
}
