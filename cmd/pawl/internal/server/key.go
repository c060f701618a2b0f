package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/receipt"
)

// keyFile is the private key in the data directory, mode 0600. The public one is [config.PublicKeyFile].
const keyFile = "receipt.key.pem"

// keyPath is where the receipt key is, and whether it may be made there.
func keyPath(c config.Config) (path string, mayMake bool) {
	if c.ReceiptKey != "" {
		return c.ReceiptKey, false
	}
	return filepath.Join(c.Data, keyFile), true
}

// engineIssuer loads the receipt key, or makes it on the first start, and keeps the public key beside it.
func engineIssuer(c config.Config) (key receipt.Key, signs *receipt.Issuer, err error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return key, nil, fmt.Errorf("make the data directory: %w", err)
	}
	path, mayMake := keyPath(c)
	load := receipt.LoadKey
	if mayMake {
		load = receipt.LoadOrCreateKey
	}
	if key, err = load(path); err != nil {
		return key, nil, fmt.Errorf("receipt key: %w", err)
	}
	if err := receipt.WritePublicKey(filepath.Join(c.Data, config.PublicKeyFile), key.Public()); err != nil {
		return key, nil, fmt.Errorf("public receipt key: %w", err)
	}
	signs, err = issuer(c, key)
	return key, signs, err
}

func issuer(c config.Config, key receipt.Key) (*receipt.Issuer, error) {
	i, err := receipt.NewIssuer(receipt.Options{Name: c.Issuer, Key: key})
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	return i, nil
}

// commandSigner signs with the key if it is here. A command never makes one: receipts that nobody can check are worse than
// receipts that the engine issues a little later.
func commandSigner(c config.Config) (ledger.Signer, error) {
	path, _ := keyPath(c)
	key, err := receipt.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return owing{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("receipt key: %w", err)
	}
	return issuer(c, key)
}

// owing leaves every receipt to the engine, which has the key.
type owing struct{}

func (owing) Issue(receipt.Effect) (receipt.Receipt, error) {
	return receipt.Receipt{}, errors.New("the receipt key is not on the machine where this was decided; the engine issues the receipt")
}
