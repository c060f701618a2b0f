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

// write returns the document in canonical form. The payload must be canonical.
func (d receiptDocument) write() []byte {
	p := []member{{"method", quote(d.Provenance.Method)}}
	if d.Provenance.Endpoint != "" {
		p = append(p, member{"endpoint", quote(d.Provenance.Endpoint)})
	}
	if d.Provenance.Query != "" {
		p = append(p, member{"query", quote(d.Provenance.Query)})
	}
	return object(
		member{"schemaVersion", quote(d.SchemaVersion)},
		member{"receiptId", quote(d.ReceiptID)},
		member{"spore", object(
			member{"schemaVersion", quote(d.Spore.SchemaVersion)},
			member{"subjectKey", quote(d.Spore.SubjectKey)},
			member{"kind", quote(d.Spore.Kind)},
			member{"payload", d.Spore.Payload},
			member{"contentHash", quote(d.Spore.ContentHash)},
			member{"hashAlg", quote(d.Spore.HashAlg)},
			member{"source", quote(d.Spore.Source)},
			member{"capturedAt", quote(d.Spore.CapturedAt)},
		)},
		member{"issuer", quote(d.Issuer)},
		member{"issuedAt", quote(d.IssuedAt)},
		member{"provenance", object(p...)},
		member{"digest", quote(d.Digest)},
		member{"verificationStatus", quote(d.VerificationStatus)},
	)
}

// content is what a spore says, in canonical form: the text under its hash. The
// payload must be canonical.
func content(kind, subjectKey string, payload []byte) []byte {
	return object(member{"kind", quote(kind)}, member{"payload", payload}, member{"subjectKey", quote(subjectKey)})
}

// issueDigest binds what was said to who said it. Neither the receipt's id nor
// its time is under it: issuing the same content again gives the same digest.
func issueDigest(contentHash, issuer, kind, subjectKey string) canonical.Digest {
	return canonical.SumBytes(object(
		member{"contentHash", quote(contentHash)},
		member{"issuer", quote(issuer)},
		member{"kind", quote(kind)},
		member{"subjectKey", quote(subjectKey)},
	))
}

// interchangeDigest binds an issuer to a subject hash in a receipt.v1.
func interchangeDigest(issuer, subjectHash string) canonical.Digest {
	return canonical.SumBytes(object(member{"issuer", quote(issuer)}, member{"subjectHash", quote(subjectHash)}))
}

func millis(t time.Time) string { return t.UTC().Format(isoMillis) }
