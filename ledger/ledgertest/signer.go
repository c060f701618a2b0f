package ledgertest

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/receipt"
)

// Signer is a signer that can be made to fail. The zero value works and is safe for concurrent use. What it makes is no real
// receipt: package receipt has tests of its own.
type Signer struct {
	mu     sync.Mutex
	broken bool
	issued []receipt.Effect
}

// Break makes every later Issue fail; Mend undoes it.
func (s *Signer) Break() { s.set(true) }

// Mend lets Issue work again.
func (s *Signer) Mend() { s.set(false) }

func (s *Signer) set(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// Issued returns the effects that were signed so far.
func (s *Signer) Issued() []receipt.Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]receipt.Effect(nil), s.issued...)
}

// Issue makes an unsigned stand-in for a receipt.
func (s *Signer) Issue(e receipt.Effect) (receipt.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return receipt.Receipt{}, errors.New("the key is not there today: \x00\xff") // what a key store says is anything
	}
	s.issued = append(s.issued, e)
	body, err := json.Marshal(e)
	if err != nil {
		return receipt.Receipt{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return receipt.Receipt{}, err
	}
	envelope, err := canonical.Marshal(map[string]any{"outcome": string(e.Outcome), "key": e.EffectKey, "effect": string(body)})
	if err != nil {
		return receipt.Receipt{}, err
	}
	return receipt.Receipt{ID: id.String(), IssuedAt: time.Now().UTC(), Digest: canonical.SumBytes(body).Stamped(), Envelope: envelope}, nil
}
