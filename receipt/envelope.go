package receipt

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// seal signs a document in canonical form. The envelope is itself canonical
// JSON, so that it has one byte form and a changed byte cannot hide in white
// space, in the order of members or in the alphabet of base64.
func (k Key) seal(schema string, body []byte) ([]byte, error) {
	payloadType, ok := PayloadType(schema)
	if !ok {
		return nil, fmt.Errorf("schema %q has no payload type", schema)
	}
	signer, err := dsse.NewEnvelopeSigner(signer{k})
	if err != nil {
		return nil, fmt.Errorf("prepare signer: %w", err)
	}
	env, err := signer.SignPayload(context.Background(), payloadType, body)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	line := writeEnvelope(env)
	if len(line) > MaxDocument {
		return nil, fmt.Errorf("envelope has %d bytes, more than %d", len(line), MaxDocument)
	}
	return line, nil
}

// writeEnvelope writes the one form of an envelope.
func writeEnvelope(env *dsse.Envelope) []byte {
	var signatures [][]byte
	for _, s := range env.Signatures {
		signatures = append(signatures, object(member{"keyid", quote(s.KeyID)}, member{"sig", quote(s.Sig)}))
	}
	return object(
		member{"payload", quote(env.Payload)},
		member{"payloadType", quote(env.PayloadType)},
		member{"signatures", list(signatures...)},
	)
}

// sealed is an envelope whose form is right; its signature is not yet checked.
type sealed struct {
	envelope dsse.Envelope
	document []byte // the payload, canonical
}

// openEnvelope reads an envelope in its one exact form.
func openEnvelope(line []byte, have map[string]json.RawMessage) (sealed, error) {
	f := fields{have: have}
	f.only("payload", "payloadType", "signatures")
	env := dsse.Envelope{PayloadType: f.text("payloadType"), Payload: f.text("payload")}
	var signatures []json.RawMessage
	if raw := f.value("signatures"); raw != nil && json.Unmarshal(raw, &signatures) != nil {
		f.fail("signatures", "must be a list")
	}
	if f.err != nil {
		return sealed{}, f.err
	}
	if len(signatures) != 1 {
		return sealed{}, fmt.Errorf("signatures: must hold exactly one, holds %d", len(signatures))
	}
	one, err := objectMembers(signatures[0])
	if err != nil {
		return sealed{}, fmt.Errorf("signatures: %w", err)
	}
	s := fields{at: "signatures[0].", have: one}
	s.only("keyid", "sig")
	env.Signatures = []dsse.Signature{{KeyID: s.text("keyid"), Sig: s.text("sig")}}
	if s.err != nil {
		return sealed{}, s.err
	}
	document, err := exactBase64(env.Payload)
	if err != nil {
		return sealed{}, fmt.Errorf("payload: %w", err)
	}
	if _, err := exactBase64(env.Signatures[0].Sig); err != nil {
		return sealed{}, fmt.Errorf("signatures[0].sig: %w", err)
	}
	if !bytes.Equal(writeEnvelope(&env), line) {
		return sealed{}, errors.New("not in the exact form it was issued in (white space, order or escapes differ)")
	}
	return sealed{envelope: env, document: document}, nil
}

// exactBase64 decodes padded standard base64 and refuses every other spelling.
func exactBase64(text string) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("is not standard base64: %w", err)
	}
	if base64.StdEncoding.EncodeToString(data) != text {
		return nil, errors.New("is not standard base64 in its only spelling")
	}
	return data, nil
}

// signedBy checks the signature under one public key.
func (s sealed) signedBy(id string, pub ed25519.PublicKey) error {
	verifier, err := dsse.NewEnvelopeVerifier(checker{id: id, pub: pub})
	if err != nil {
		return fmt.Errorf("prepare verifier: %w", err)
	}
	_, body, err := verifier.VerifyAndDecode(context.Background(), &s.envelope)
	if err != nil {
		return errors.New("the signature does not match the content")
	}
	if !bytes.Equal(body, s.document) {
		return errors.New("the signed bytes are not the ones that were checked")
	}
	return nil
}

type signer struct{ key Key }

func (s signer) Sign(_ context.Context, data []byte) ([]byte, error) {
	return ed25519.Sign(s.key.secret.private, data), nil
}

func (s signer) KeyID() (string, error) { return s.key.ID(), nil }

type checker struct {
	id  string
	pub ed25519.PublicKey
}

func (c checker) Verify(_ context.Context, data, sig []byte) error {
	if len(sig) != ed25519.SignatureSize || !ed25519.Verify(c.pub, data, sig) {
		return errors.New("signature does not match")
	}
	return nil
}

func (c checker) KeyID() (string, error)   { return c.id, nil }
func (c checker) Public() crypto.PublicKey { return c.pub }
