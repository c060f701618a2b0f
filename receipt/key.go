package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
)

const (
	pemPrivate = "PRIVATE KEY" // PKCS#8
	pemPublic  = "PUBLIC KEY"  // SubjectPublicKeyInfo
	pemBegin   = "-----BEGIN "
)

// Key is an Ed25519 key that signs receipts. Printing or logging it shows its
// id only. The zero Key signs nothing.
type Key struct{ secret *secret }

// secret sits behind a pointer so that a struct that holds a Key in a field of
// its own does not print it.
type secret struct {
	private ed25519.PrivateKey
	id      string
}

// GenerateKey makes a new key.
func GenerateKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("generate receipt key: %w", err)
	}
	return NewKey(private)
}

// NewKey wraps a private key that the caller got elsewhere.
func NewKey(private ed25519.PrivateKey) (Key, error) {
	if len(private) != ed25519.PrivateKeySize {
		return Key{}, fmt.Errorf("receipt key: has %d bytes, an Ed25519 private key has %d", len(private), ed25519.PrivateKeySize)
	}
	// Deriving it again refuses a private key whose public half is another's:
	// signing with such a pair gives the private half away.
	private = ed25519.NewKeyFromSeed(private.Seed())
	id, err := Fingerprint(private.Public().(ed25519.PublicKey))
	if err != nil {
		return Key{}, err
	}
	return Key{secret: &secret{private: private, id: id}}, nil
}

func (k Key) valid() bool { return k.secret != nil }

// ID is the fingerprint of the public key, as receipts name it; empty for the
// zero Key.
func (k Key) ID() string {
	if !k.valid() {
		return ""
	}
	return k.secret.id
}

// Public returns the public key that verifies this key's receipts; nil for the
// zero Key.
func (k Key) Public() ed25519.PublicKey {
	if !k.valid() {
		return nil
	}
	return k.secret.private.Public().(ed25519.PublicKey)
}

// String shows the key id.
func (k Key) String() string { return "receipt key " + k.ID() }

// GoString shows the key id.
func (k Key) GoString() string { return k.String() }

// LogValue logs the key id.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.ID()) }

// MarshalText writes the key id, so that a configuration can be shown.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.ID()), nil }

// Fingerprint is the key id of a public key: "sha256:" and the lower-case hex
// SHA-256 of its DER form (SubjectPublicKeyInfo). By hand:
//
//	openssl pkey -pubin -in receipt.pub.pem -outform DER | sha256sum
func Fingerprint(pub ed25519.PublicKey) (string, error) {
	if len(pub) != ed25519.PublicKeySize {
		return "", fmt.Errorf("public key: has %d bytes, an Ed25519 public key has %d", len(pub), ed25519.PublicKeySize)
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// EncodePublicKey returns the PEM form that verifiers read.
func EncodePublicKey(pub ed25519.PublicKey) ([]byte, error) {
	if len(pub) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key: has %d bytes, an Ed25519 public key has %d", len(pub), ed25519.PublicKeySize)
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// encode returns the PKCS#8 PEM form of the private key.
func (k Key) encode() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.secret.private)
	if err != nil {
		return nil, fmt.Errorf("encode receipt key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der}), nil
}

// decodeKey reads exactly one PKCS#8 block. Errors never quote the input.
func decodeKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, errors.New("holds no PEM block: it must be a PKCS#8 Ed25519 key (openssl genpkey -algorithm ed25519)")
	}
	if block.Type != pemPrivate {
		return Key{}, fmt.Errorf("holds a %q block, not %q: it must be an unencrypted PKCS#8 Ed25519 key", block.Type, pemPrivate)
	}
	if bytes.Count(text, []byte(pemBegin)) != 1 {
		return Key{}, errors.New("holds more than one PEM block: keep one key to a file")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, errors.New("holds no readable PKCS#8 key: make a new one (openssl genpkey -algorithm ed25519)")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("holds a %T: receipts are signed with Ed25519 (openssl genpkey -algorithm ed25519)", parsed)
	}
	return NewKey(private)
}
