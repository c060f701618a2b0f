package receipt

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxKeyFile bounds a key file in bytes; a real one has about 120.
const maxKeyFile = 64 << 10

// LoadKey reads a private key file (PEM, PKCS#8, Ed25519). It refuses a file
// that anybody but its owner may touch. A missing file is fs.ErrNotExist.
func LoadKey(path string) (Key, error) {
	text, err := readPrivate(path)
	if err != nil {
		return Key{}, err
	}
	key, err := decodeKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("receipt key %s: %w", path, err)
	}
	return key, nil
}

// LoadOrCreateKey reads the key file at path, or makes one (mode 0600) if there
// is none. Processes that start at once on the same folder end with the same
// key. The folder must exist and be on a file system with hard links.
func LoadOrCreateKey(path string) (Key, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil {
		return Key{}, fmt.Errorf("create receipt key %s: %w", path, err)
	}
	return LoadKey(path)
}

// createKey puts a complete key file at path, or leaves the one that another
// process put there first: linking never replaces a file and never shows half
// of one.
func createKey(path string) (err error) {
	key, err := GenerateKey()
	if err != nil {
		return err
	}
	text, err := key.encode()
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	// CreateTemp opens with O_EXCL and mode 0600.
	temp, err := os.CreateTemp(folder, ".receipt-key-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put the key in place (without hard links here, make one with openssl genpkey -algorithm ed25519): %w", err)
	}
	return syncFolder(folder)
}

// syncFolder makes the new name survive a power cut: a key that vanishes after
// it has signed leaves receipts that nobody can verify.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open receipt key: %w", err)
	}
	defer f.Close() // read only: nothing to lose
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect receipt key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("receipt key %s: is not a regular file", path)
	}
	if loose := info.Mode().Perm() &^ 0o600; loose != 0 {
		return nil, fmt.Errorf("receipt key %s: mode is %04o, others than its owner may use it: run chmod 600 %s, and replace the key if others could read it",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read receipt key: %w", err)
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("receipt key %s: is larger than %d bytes, it cannot be a key", path, maxKeyFile)
	}
	return text, nil
}

// WritePublicKey writes the PEM file that verifiers need, replacing what is
// there in one step.
func WritePublicKey(path string, pub ed25519.PublicKey) (err error) {
	text, err := EncodePublicKey(pub)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".receipt-pub-*")
	if err != nil {
		return fmt.Errorf("write public key: %w", err)
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write public key: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}
