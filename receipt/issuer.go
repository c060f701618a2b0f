package receipt

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
)

// DefaultSource is the spore's source when [Options] names none.
const DefaultSource = "pawl"

// provenanceMethod says where the facts of a receipt come from.
const provenanceMethod = "pawl.ledger"

// Options configures an [Issuer].
type Options struct {
	Name   string // who issues, e.g. "organism:example:main"; required
	Key    Key    // signs every receipt; required
	Source string // what produced the content; [DefaultSource] if empty

	Now   func() time.Time          // clock for issuedAt; time.Now if nil
	NewID func() (uuid.UUID, error) // receipt ids; time-ordered UUIDs if nil
}

// Issuer makes signed receipts. It is safe for concurrent use if the functions
// in its options are. Make one with [NewIssuer].
type Issuer struct {
	name, source string
	key          Key
	now          func() time.Time
	newID        func() (uuid.UUID, error)
}

// Receipt is one issued receipt.
type Receipt struct {
	ID       string    // new for every issue
	IssuedAt time.Time // UTC, whole milliseconds
	Digest   string    // stamped; the same for the same content and issuer
	Envelope []byte    // one line of JSON without a line end; no byte of it may change
}

// NewIssuer checks the options and returns an issuer.
func NewIssuer(o Options) (*Issuer, error) {
	if err := checkText("Name", o.Name, true); err != nil {
		return nil, err
	}
	if o.Source == "" {
		o.Source = DefaultSource
	}
	if err := checkText("Source", o.Source, true); err != nil {
		return nil, err
	}
	if !o.Key.valid() {
		return nil, fault("Key", "must be set: use GenerateKey, LoadKey or LoadOrCreateKey")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewV7
	}
	return &Issuer{name: o.Name, source: o.Source, key: o.Key, now: o.Now, newID: o.NewID}, nil
}

// Issue makes a signed receipt of the effect. Every error is an [*IssueError]:
// the outcome stands and the receipt is owed.
func (i *Issuer) Issue(e Effect) (Receipt, error) {
	if i == nil || !i.key.valid() {
		return Receipt{}, fault("", "has no issuer: make one with NewIssuer")
	}
	if err := e.validate(); err != nil {
		return Receipt{}, err
	}
	payload, kind := e.payload(), kindPrefix+string(e.Outcome)
	contentHash := canonical.SumBytes(content(kind, e.EffectKey, payload)).Stamped()
	digest := issueDigest(contentHash, i.name, kind, e.EffectKey).Stamped()
	id, err := i.newID()
	if err != nil {
		return Receipt{}, &IssueError{Problem: "cannot make a receipt id", Err: err}
	}
	issuedAt := i.now().UTC().Truncate(time.Millisecond)
	document := receiptDocument{
		SchemaVersion: SchemaReceipt,
		ReceiptID:     id.String(),
		Spore: spore{
			SchemaVersion: SchemaSpore,
			SubjectKey:    e.EffectKey,
			Kind:          kind,
			Payload:       payload,
			ContentHash:   contentHash,
			HashAlg:       canonical.Algorithm,
			Source:        i.source,
			CapturedAt:    millis(e.At),
		},
		Issuer:             i.name,
		IssuedAt:           millis(issuedAt),
		Provenance:         provenance{Method: provenanceMethod},
		Digest:             digest,
		VerificationStatus: unverified,
	}
	envelope, err := i.key.seal(SchemaReceipt, document.write())
	if err != nil {
		return Receipt{}, &IssueError{Problem: "cannot sign", Err: err}
	}
	return Receipt{ID: id.String(), IssuedAt: issuedAt, Digest: digest, Envelope: envelope}, nil
}

// Seal puts a plain document of any of the three schemas into an envelope
// signed by the issuer's key. The document is verified first, and must name
// this issuer. The result is canonical whatever the layout of doc.
func (i *Issuer) Seal(doc []byte) ([]byte, error) {
	if i == nil || !i.key.valid() {
		return nil, fault("", "has no issuer: make one with NewIssuer")
	}
	verdict := Verify(doc, VerifyOptions{Issuer: i.name})
	if !verdict.OK {
		return nil, fault("", "will not sign a document that fails: "+verdict.String())
	}
	canon, err := canonical.Transform(doc)
	if err != nil {
		return nil, &IssueError{Problem: "cannot read the document", Err: err}
	}
	envelope, err := i.key.seal(verdict.Schema, canon)
	if err != nil {
		return nil, &IssueError{Problem: "cannot sign", Err: err}
	}
	return envelope, nil
}

// String names the issuer and its key id, never the key.
func (i *Issuer) String() string { return fmt.Sprintf("%s (%s)", i.name, i.key.ID()) }
