package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/receipt"
)

// Room that is left where the data is, in bytes.
const (
	leastRoom = 100 << 20
	goodRoom  = 1 << 30
)

func (d *doctor) data() {
	const about = "data directory"
	dir := d.Config.Data
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		above, info := existing(dir)
		if info == nil || info.Mode().Perm()&0o222 == 0 || unix.Access(above, unix.W_OK|unix.X_OK) != nil {
			d.fault(about, "make it for the user that runs pawl, or name another one as data", "%s is not there, and cannot be made in %s", dir, above)
			return
		}
		d.warn(about, "pawl serve makes it; or name another one as data", "%s is not there yet", dir)
		return
	case err != nil:
		d.fault(about, "name another one as data", "%v", err)
		return
	case !info.IsDir():
		d.fault(about, "name a folder as data", "%s is no folder", dir)
		return
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o200 == 0:
		d.fault(about, "chmod 700 "+dir, "%s is read-only (mode %#o): keys, sockets and an embedded ledger need it", dir, mode)
	case mode&0o022 != 0:
		d.fault(about, "chmod 700 "+dir, "others can write to %s (mode %#o): they could replace the ledger or the receipt key", dir, mode)
	default:
		if err := writes(dir); err != nil {
			d.fault(about, "let the user that runs pawl own it", "%s cannot be written: %v", dir, err)
		} else {
			d.ok(about, "%s can be written (mode %#o)", dir, mode)
		}
	}
	d.room(about, dir)
}

// existing is the nearest folder above that is there.
func existing(dir string) (string, fs.FileInfo) {
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		if info, err := os.Stat(above); err == nil || above == filepath.Dir(above) {
			return above, info
		}
	}
}

// writes tries a folder.
func writes(dir string) error {
	f, err := os.CreateTemp(dir, ".pawl-doctor-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (d *doctor) room(about, dir string) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return
	}
	left := s.Bavail * uint64(s.Bsize)
	switch {
	case left < leastRoom:
		d.fault(about, "make room: a ledger that cannot be written stops everything", "%d MB are free", left>>20)
	case left < goodRoom:
		d.warn(about, "make room before it ends", "%d MB are free", left>>20)
	default:
		d.ok(about, "%d GB are free", left>>30)
	}
}

// Kinds of file systems, as statfs numbers them.
const (
	fsNFS, fsSMB, fsSMB2, fsCIFS, fsFUSE, fsTmpfs, fsCeph, fs9P = 0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0x65735546, 0x01021994, 0x00c36400, 0x01021997
)

// kindOfDisk judges what a file system of this kind means for an embedded ledger.
func kindOfDisk(kind int64) (Level, string) {
	switch kind & 0xffffffff {
	case fsNFS, fsSMB, fsSMB2, fsCIFS, fsCeph, fs9P:
		return Fault, "is on a network file system, where locks and flushes do not hold what SQLite needs"
	case fsFUSE:
		return Warning, "is on a file system in user space (FUSE), which may not flush or lock as SQLite needs"
	case fsTmpfs:
		return Warning, "is in memory (tmpfs): it is gone when the machine restarts, and everything may be sent again"
	}
	return OK, "is on a local file system"
}

func (d *doctor) receiptKey() {
	const about = "receipt key"
	path, mayMake := server.ReceiptKeyPath(d.Config)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mayMake:
		d.warn(about, "pawl serve makes it at its first start; replicas should share one: pawl receipt keygen", "%s is not there yet", path)
		return
	case err != nil:
		d.fault(about, "copy the key there, or make one with pawl receipt keygen", "%v", err)
		return
	case info.Mode().Perm()&0o077 != 0:
		d.fault(about, "chmod 600 "+path+"; if others could read it, make another key", "others can read %s (mode %#o): they could sign receipts", path, info.Mode().Perm())
		return
	}
	key, err := receipt.LoadKey(path)
	if err != nil {
		d.fault(about, "restore it from a backup, or move it away and make another one; verifiers then need the new public key, too", "%s: %v", path, err)
		return
	}
	public := filepath.Join(d.Config.Data, config.PublicKeyFile)
	ring, err := receipt.LoadKeyRing(public)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok(about, "%s is good, %s; the public one is written at the next start", path, key.ID())
	case err != nil:
		d.fault(about, "remove it: the next start writes it again", "the public key %s: %v", public, err)
	case !slices.Contains(ring.IDs(), key.ID()):
		d.fault(about, "find out which one verifiers have; then remove the public file: the next start writes it again",
			"%s is not the public key of %s: verifiers that have it refuse new receipts", public, path)
	default:
		d.ok(about, "%s is good, and %s belongs to it (%s)", path, public, key.ID())
	}
}
