package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlworks/pawl/canonical"
)

// DefaultClockAllowance is how far ahead of the verifier's clock an issue time
// may lie before a freshness check refuses it.
const DefaultClockAllowance = 5 * time.Second

// VerifyOptions says what a verifier demands. The zero options check schema,
// content and identity of plain documents and reject envelopes, for want of a
// key.
type VerifyOptions struct {
	// Keys are the trusted public keys. With keys, only signed documents pass,
	// unless AllowUnsigned is set: else taking a receipt out of its envelope
	// would be a way around the signature.
	Keys *KeyRing
	// AllowUnsigned lets plain documents pass beside signed ones; their
	// verdict says that no signature was checked.
	AllowUnsigned bool
	// Issuer, if set, is the only issuer that passes.
	Issuer string
	// Subject, if set, is the JSON value that the content hash must be the
	// hash of. Without it the content of a receipt.v1, which carries a hash
	// only, is not checked.
	Subject []byte
	// MaxAge, if positive, is the greatest age of the issue time.
	MaxAge time.Duration
	// ClockAllowance is the clock difference that MaxAge forgives;
	// [DefaultClockAllowance] if zero.
	ClockAllowance time.Duration
	// Now is the clock for MaxAge; time.Now if nil.
	Now func() time.Time
}

// Verify checks one receipt: a dreamnet.receipt.v1, a receipt.v1 or a
// proof-artifact.v1, plain or in an envelope. It needs no network and no
// database, never panics on any input, and fails closed. It is safe for
// concurrent use.
func Verify(doc []byte, opts VerifyOptions) Verdict {
	v := newVerdict()
	v.run(doc, opts)
	v.settle()
	return v
}

func (v *Verdict) run(doc []byte, opts VerifyOptions) {
	_, have, err := strict(doc)
	if err != nil {
		v.set(CheckSchema, Failed, err.Error())
		return
	}
	var env *sealed
	if _, plain := have["schemaVersion"]; !plain {
		opened, err := openEnvelope(doc, have)
		if err != nil {
			v.set(CheckSchema, Failed, "neither a receipt (no schemaVersion) nor an envelope: "+err.Error())
			return
		}
		env = &opened
		v.Claims.KeyID = env.envelope.Signatures[0].KeyID
		var canon []byte
		if canon, have, err = strict(env.document); err != nil {
			v.set(CheckSchema, Failed, "the document in the envelope "+err.Error())
			return
		}
		if string(canon) != string(env.document) {
			v.set(CheckSchema, Failed, "the document in the envelope is not in canonical form")
			return
		}
	}
	if err := v.readSchema(have, env); err != nil {
		v.set(CheckSchema, Failed, err.Error())
		return
	}
	read, err := v.read(have)
	if err != nil {
		v.set(CheckSchema, Failed, err.Error())
		return
	}
	v.set(CheckSchema, Passed, v.Schema+", every field present and no other")
	v.Claims = read.claims
	v.checkContent(read, opts)
	v.checkIdentity(read, opts)
	v.checkSignature(env, opts)
	v.checkFreshness(env, opts)
}

// readSchema finds the schema and binds the envelope's payload type to it, so
// that a signature over one kind of document is no signature over another.
func (v *Verdict) readSchema(have map[string]json.RawMessage, env *sealed) error {
	f := fields{have: have}
	schema := f.text("schemaVersion")
	if f.err != nil {
		return f.err
	}
	payloadType, known := PayloadType(schema)
	if !known {
		return fmt.Errorf("schemaVersion: %.64q is not a schema this verifier knows", schema)
	}
	v.Schema = schema
	if env != nil && env.envelope.PayloadType != payloadType {
		return fmt.Errorf("payloadType: %.96q does not belong to %s", env.envelope.PayloadType, schema)
	}
	return nil
}

func (v *Verdict) checkContent(read reading, opts VerifyOptions) {
	if read.content != nil {
		if err := read.content(); err != nil {
			v.set(CheckContent, Failed, err.Error())
			return
		}
		v.set(CheckContent, Passed, "the content hash recomputes")
	} else {
		v.set(CheckContent, NotChecked, "the document carries the hash of its subject, not the subject")
	}
	if opts.Subject == nil {
		return
	}
	digest, err := canonical.Sum(opts.Subject)
	if err != nil {
		v.set(CheckContent, Failed, "the expected subject is not JSON: "+err.Error())
		return
	}
	if digest.Hex() != read.subjectHex {
		v.set(CheckContent, Failed, "the content hash is not that of the expected subject")
		return
	}
	v.set(CheckContent, Passed, "the content hash is that of the expected subject")
}

func (v *Verdict) checkIdentity(read reading, opts VerifyOptions) {
	if read.identity != nil {
		if err := read.identity(); err != nil {
			v.set(CheckIdentity, Failed, err.Error())
			return
		}
		v.set(CheckIdentity, Passed, "the digest binds issuer and subject; any issuer was accepted")
	} else {
		v.set(CheckIdentity, NotChecked, "no digest of this schema covers its creator")
	}
	if opts.Issuer == "" {
		return
	}
	if v.Claims.Issuer != opts.Issuer {
		v.set(CheckIdentity, Failed, fmt.Sprintf("the issuer is %.128q, not the expected one", v.Claims.Issuer))
		return
	}
	if read.identity != nil {
		v.set(CheckIdentity, Passed, "the digest binds the expected issuer to the subject")
	}
}

func (v *Verdict) checkSignature(env *sealed, opts VerifyOptions) {
	if env == nil {
		if opts.Keys != nil && !opts.AllowUnsigned {
			v.set(CheckSignature, Failed, "the document is in no envelope, and keys were given")
			return
		}
		v.set(CheckSignature, NotChecked, "the document is in no envelope: the digests prove integrity, not who issued it")
		return
	}
	id := env.envelope.Signatures[0].KeyID
	v.Claims.KeyID = id
	key, err := pick(opts.Keys, id)
	if err == nil {
		err = env.signedBy(id, key.pub)
	}
	if err != nil {
		v.set(CheckSignature, Failed, err.Error())
		return
	}
	v.set(CheckSignature, Passed, "signed by "+id)
	if !key.maySignFor(v.Claims.Issuer) {
		v.set(CheckIdentity, Failed, fmt.Sprintf("key %s is not trusted to sign for %.128q", id, v.Claims.Issuer))
		return
	}
	if v.Result(CheckIdentity).Status == NotChecked {
		v.set(CheckIdentity, Passed, "the signature covers the creator's name")
	}
}

func pick(ring *KeyRing, id string) (trusted, error) {
	if ring.Len() == 0 {
		return trusted{}, errors.New("no public key was given to check it with")
	}
	key, ok := ring.find(id)
	if !ok {
		return trusted{}, fmt.Errorf("no trusted key has the id %.96q", id)
	}
	return key, nil
}

func (v *Verdict) checkFreshness(env *sealed, opts VerifyOptions) {
	if opts.MaxAge <= 0 {
		v.set(CheckFreshness, NotChecked, "no greatest age was given")
		return
	}
	now, allowance := time.Now, opts.ClockAllowance
	if opts.Now != nil {
		now = opts.Now
	}
	if allowance == 0 {
		allowance = DefaultClockAllowance
	}
	age := now().Sub(v.Claims.IssuedAt)
	switch {
	case age < -allowance:
		v.set(CheckFreshness, Failed, "issued "+(-age).Round(time.Second).String()+" in the future")
	case age > opts.MaxAge+allowance:
		v.set(CheckFreshness, Failed, "issued "+age.Round(time.Second).String()+" ago, more than "+opts.MaxAge.String())
	case env == nil:
		v.set(CheckFreshness, Passed, "issued "+age.Round(time.Second).String()+" ago, by a time that nothing protects without an envelope")
	default:
		v.set(CheckFreshness, Passed, "issued "+age.Round(time.Second).String()+" ago")
	}
}
