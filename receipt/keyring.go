package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
)

// KeyRing is the set of public keys a verifier trusts. Rotating a key means
// adding the new public key and keeping the old one for as long as its receipts
// matter; dropping a key rejects everything it signed. Fill it before sharing
// it: adding is not safe while others verify.
type KeyRing struct {
	keys map[string]trusted
}

type trusted struct {
	pub     ed25519.PublicKey
	issuers []string // empty: any issuer
}

// NewKeyRing returns a ring of keys that may sign for any issuer.
func NewKeyRing(keys ...ed25519.PublicKey) (*KeyRing, error) {
	ring := &KeyRing{}
	for _, pub := range keys {
		if err := ring.Add(pub); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// Add trusts a public key. Where issuers are named, the key is trusted for
// their receipts only; a ring with keys of several organisations needs that,
// or each could sign as any other. Adding a key again adds its issuers.
func (r *KeyRing) Add(pub ed25519.PublicKey, issuers ...string) error {
	id, err := Fingerprint(pub)
	if err != nil {
		return err
	}
	if slices.Contains(issuers, "") {
		return fmt.Errorf("trust key %s: an issuer must not be empty", id)
	}
	if r.keys == nil {
		r.keys = make(map[string]trusted)
	}
	old, known := r.keys[id]
	if known && (len(old.issuers) == 0 || len(issuers) == 0) {
		issuers = nil
	} else {
		issuers = append(slices.Clone(old.issuers), issuers...)
	}
	r.keys[id] = trusted{pub: slices.Clone(pub), issuers: issuers}
	return nil
}

// Len returns the number of keys; a nil ring has none.
func (r *KeyRing) Len() int {
	if r == nil {
		return 0
	}
	return len(r.keys)
}

// IDs returns the key ids in order.
func (r *KeyRing) IDs() []string {
	if r == nil {
		return nil
	}
	ids := make([]string, 0, len(r.keys))
	for id := range r.keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (r *KeyRing) find(id string) (trusted, bool) {
	if r == nil {
		return trusted{}, false
	}
	key, ok := r.keys[id]
	return key, ok
}

func (t trusted) maySignFor(issuer string) bool {
	return len(t.issuers) == 0 || slices.Contains(t.issuers, issuer)
}

// LoadKeyRing reads public key files (PEM; several keys to a file are fine).
func LoadKeyRing(paths ...string) (*KeyRing, error) {
	ring := &KeyRing{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read public key: %w", err)
		}
		keys, err := ParsePublicKeys(text)
		if err != nil {
			return nil, fmt.Errorf("public key %s: %w", path, err)
		}
		for _, pub := range keys {
			if err := ring.Add(pub); err != nil {
				return nil, err
			}
		}
	}
	return ring, nil
}

// ParsePublicKeys reads the Ed25519 public keys of a PEM text. A text without
// any, or with another or a broken PEM block in it, is an error; text between
// the blocks is not.
func ParsePublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	begun := bytes.Count(text, []byte(pemBegin))
	var keys []ed25519.PublicKey
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != pemPublic {
			return nil, fmt.Errorf("holds a %q block where only %q belongs: give verifiers the public key", block.Type, pemPublic)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse public key: %w", err)
		}
		pub, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("holds a %T: receipts are signed with Ed25519", parsed)
		}
		keys = append(keys, pub)
	}
	if begun != len(keys) {
		return nil, errors.New("holds a broken PEM block: copy the file again")
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no public key in PEM form")
	}
	return keys, nil
}
