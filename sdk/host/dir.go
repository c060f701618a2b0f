package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is the longest path of a Unix socket on every supported system, in bytes: macOS allows 104 with the
	// final zero.
	maxSocketPath = 103
	dirPrefix     = "run-"
	// newPrefix is of directories that are being made: they get their name when they are locked, so that no sweep takes one away
	// in between.
	newPrefix = "new-"
	// newLife is when one that still has that name was left behind by a death.
	newLife = time.Minute
	// longestName is what is added to the base directory for a socket, at most.
	longestName = len("/" + dirPrefix + "4294967295" + "/s" + "/plugin4294967295")
)

// baseDir makes and checks the directory in which launches live.
func baseDir(dir string) (string, error) {
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "pawl-"+strconv.Itoa(os.Getuid()))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find Dir: %w", err)
	}
	if len(dir)+longestName > maxSocketPath {
		return "", fmt.Errorf("option Dir %q is too long: a socket in it would have a path of %d bytes and %d is the limit; choose one of at most %d bytes",
			dir, len(dir)+longestName, maxSocketPath, maxSocketPath-longestName)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make Dir: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at Dir: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("option Dir %q must be a directory of this user that nobody else can write to", dir)
	}
	return dir, nil
}

// launchDir is the private directory of one generation. Its lock tells a later engine whether it is still in use.
type launchDir struct {
	path string
	lock *os.File
}

func newLaunchDir(base string) (*launchDir, error) {
	path, err := os.MkdirTemp(base, newPrefix)
	if err != nil {
		return nil, fmt.Errorf("make the launch directory: %w", err)
	}
	d := &launchDir{path: path}
	for _, sub := range []string{d.sockets(), d.work()} {
		err = errors.Join(err, os.Mkdir(sub, 0o700))
	}
	lock, lockErr := lockFile(filepath.Join(path, "lock"))
	if err = errors.Join(err, lockErr); err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("make the launch directory: %w", err)
	}
	d.lock = lock
	d.path = filepath.Join(base, dirPrefix+strings.TrimPrefix(filepath.Base(path), newPrefix))
	if err := os.Rename(path, d.path); err != nil { // the name is as random as the other was
		_ = os.RemoveAll(path)
		_ = lock.Close()
		return nil, fmt.Errorf("make the launch directory: %w", err)
	}
	return d, nil
}

func (d *launchDir) sockets() string { return filepath.Join(d.path, "s") }

// work is the adapter's working directory: empty, and gone with it.
func (d *launchDir) work() string { return filepath.Join(d.path, "w") }

func (d *launchDir) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// sweep removes launch directories whose engine is gone: one that was killed could not.
func sweep(base string) error {
	paths, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return fmt.Errorf("find old launch directories: %w", err)
	}
	var faults []error
	unnamed, err := filepath.Glob(filepath.Join(base, newPrefix+"*"))
	if err != nil {
		return fmt.Errorf("find old launch directories: %w", err)
	}
	for _, path := range unnamed {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > newLife {
			faults = append(faults, os.RemoveAll(path))
		}
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(path, "lock")); err != nil {
			continue // being removed right now, or not ours
		}
		lock, err := lockFile(filepath.Join(path, "lock"))
		if err != nil {
			continue // in use
		}
		faults = append(faults, os.RemoveAll(path), lock.Close())
	}
	return errors.Join(faults...)
}
