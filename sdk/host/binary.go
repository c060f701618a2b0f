package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxBinary bounds the program file, in bytes.
const maxBinary = 1 << 30

// binary is a program that is ready to be started.
type binary struct {
	path   string
	sha256 string
}

// prepareBinary digests the program. A pinned one is copied into a private, content-addressed, read-only file first,
// and the copy is what was digested: between check and start nobody can exchange it.
func prepareBinary(path, pin, dir string) (binary, error) {
	if pin == "" {
		digest, err := digestFile(path)
		return binary{path: path, sha256: digest}, err
	}
	store := filepath.Join(dir, "bin")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return binary{}, fmt.Errorf("make the store of pinned programs: %w", err)
	}
	script, err := isScript(path)
	if err == nil && script {
		err = fmt.Errorf("%w: %s", ErrScriptPinned, path)
	}
	if err != nil {
		return binary{}, err
	}
	digest, err := digestFile(path)
	if err != nil {
		return binary{}, err
	}
	if digest != pin {
		return binary{}, fmt.Errorf("%w: %s has %s, pinned is %s", ErrWrongChecksum, path, digest, pin)
	}
	kept := filepath.Join(store, pin)
	if digest, err := digestFile(kept); err == nil && digest == pin {
		return binary{path: kept, sha256: pin}, nil
	}
	copied, err := copyBinary(path, store)
	if err != nil {
		return binary{}, err
	}
	defer func() { _ = os.Remove(copied.path) }() // gone already when all went well
	if copied.sha256 != pin {
		return binary{}, fmt.Errorf("%w: %s changed while it was copied and has %s, pinned is %s", ErrWrongChecksum, path, copied.sha256, pin)
	}
	if err := os.Rename(copied.path, kept); err != nil {
		return binary{}, fmt.Errorf("store the pinned program: %w", err)
	}
	return binary{path: kept, sha256: pin}, nil
}

// isScript reports whether the kernel would start another program, which no pin covers, to read this one.
func isScript(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("open the program: %w", err)
	}
	defer func() { _ = file.Close() }()
	var start [2]byte
	_, err = io.ReadFull(file, start[:])
	return err == nil && string(start[:]) == "#!", nil
}

func copyBinary(path, store string) (binary, error) {
	source, err := os.Open(path)
	if err != nil {
		return binary{}, fmt.Errorf("open the program: %w", err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.CreateTemp(store, "copy-")
	if err != nil {
		return binary{}, fmt.Errorf("copy the program: %w", err)
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(target, hash), io.LimitReader(source, maxBinary))
	err = errors.Join(err, target.Chmod(0o500), target.Close())
	if err != nil {
		_ = os.Remove(target.Name())
		return binary{}, fmt.Errorf("copy the program: %w", err)
	}
	return binary{path: target.Name(), sha256: hex.EncodeToString(hash.Sum(nil))}, nil
}

func digestFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the program: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(file, maxBinary+1))
	if err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	if n > maxBinary {
		return "", fmt.Errorf("the program %s has more than %d bytes", path, maxBinary)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
