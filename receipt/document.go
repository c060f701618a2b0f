package receipt

import (
	"encoding/json"
	"time"

	"github.com/pawlworks/pawl/canonical"
)

// Schema versions of the documents that this package reads.
const (
	SchemaReceipt       = "dreamnet.receipt.v1" // what an Issuer writes
	SchemaInterchange   = "receipt.v1"          // the smaller form: issuer and subject hash
	SchemaProofArtifact = "proof-artifact.v1"   // evidence data and its hash
	SchemaSpore         = "dreamnet.spore.v0"   // the content inside a dreamnet.receipt.v1
	SchemaEffect        = "pawl.effect.v1"      // the payload inside the spore
)

// MaxDocument bounds one receipt in bytes, in its envelope or plain. Nothing
// longer is issued, and nothing longer is read.
const MaxDocument = 1 << 20

const (
	unverified = "unverified"
	kindPrefix = "effect."
	// milliseconds, as ECMAScript's toISOString writes them
	isoMillis = "2006-01-02T15:04:05.000Z"
)

// PayloadType returns the DSSE payload type that a schema travels under, and
// whether the schema is known.
func PayloadType(schema string) (string, bool) {
	switch schema {
	case SchemaReceipt:
		return "application/vnd.dreamnet.receipt.v1+json", true
	case SchemaInterchange:
		return "application/vnd.dreamnet.interchange-receipt.v1+json", true
	case SchemaProofArtifact:
		return "application/vnd.dreamnet.proof-artifact.v1+json", true
	}
	return "", false
}

// receiptDocument is dreamnet.receipt.v1.
type receiptDocument struct {
	SchemaVersion      string     `json:"schemaVersion"`
	ReceiptID          string     `json:"receiptId"`
	Spore              spore      `json:"spore"`
	Issuer             string     `json:"issuer"`
	IssuedAt           string     `json:"issuedAt"`
	Provenance         provenance `json:"provenance"`
	Digest             string     `json:"digest"`
	VerificationStatus string     `json:"verificationStatus"`
}

type spore struct {
	SchemaVersion string          `json:"schemaVersion"`
	SubjectKey    string          `json:"subjectKey"`
	Kind          string          `json:"kind"`
	Payload       json.RawMessage `json:"payload"`
	ContentHash   string          `json:"contentHash"`
	HashAlg       string          `json:"hashAlg"`
	Source        string          `json:"source"`
	CapturedAt    string          `json:"capturedAt"`
}

type provenance struct {
	Method   string `json:"method"`
	Endpoint string `json:"endpoint,omitempty"`
	Query    string `json:"query,omitempty"`
}

// contentDigest is the hash of what a spore says.
func contentDigest(kind, subjectKey string, payload json.RawMessage) (canonical.Digest, error) {
	return canonical.SumValue(map[string]any{"kind": kind, "payload": payload, "subjectKey": subjectKey})
}

// issueDigest binds what was said to who said it. Neither the receipt's id nor
// its time is under it: issuing the same content again gives the same digest.
func issueDigest(contentHash, issuer, kind, subjectKey string) (canonical.Digest, error) {
	return canonical.SumValue(map[string]string{
		"contentHash": contentHash, "issuer": issuer, "kind": kind, "subjectKey": subjectKey,
	})
}

// interchangeDigest binds an issuer to a subject hash in a receipt.v1.
func interchangeDigest(issuer, subjectHash string) (canonical.Digest, error) {
	return canonical.SumValue(map[string]string{"issuer": issuer, "subjectHash": subjectHash})
}

func millis(t time.Time) string { return t.UTC().Format(isoMillis) }
