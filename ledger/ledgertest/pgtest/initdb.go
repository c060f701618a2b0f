package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// initialise makes the data directory: a copy of one that was made before by the same programs, or a new one, which it keeps for the next
// time. Making one takes ten times as long.
func (s *Server) initialise() error {
	kept, err := s.template()
	if err == nil && s.copyFrom(kept) == nil {
		return nil
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return fmt.Errorf("clear directory: %w", err)
	}
	if err := s.initdb(); err != nil {
		return err
	}
	if kept != "" {
		keep(s.data(), kept) // if that fails, the next one is made anew
	}
	return nil
}

func (s *Server) initdb() error {
	runtime.LockOSThread() // the death signal needs a thread that stays
	defer runtime.UnlockOSThread()
	c := s.command("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username="+superuser, "--pgdata="+s.data())
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// template is where the data directory of these programs is kept, in the user's own cache. It is an error if there is none.
func (s *Server) template() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program, err := os.Stat(filepath.Join(s.bin, "postgres"))
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(strings.Trim(s.bin, "/"), "/", "-"), program.Size(), program.ModTime().Unix())
	path := filepath.Join(cache, "pawl-pgtest", name)
	_, err = os.Stat(filepath.Join(path, "PG_VERSION"))
	return path, err
}

func (s *Server) copyFrom(kept string) error {
	if err := os.CopyFS(s.data(), os.DirFS(kept)); err != nil {
		return err
	}
	if err := os.Chmod(s.data(), 0o700); err != nil {
		return err
	}
	if s.owner == nil {
		return nil
	}
	return filepath.WalkDir(s.data(), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)))
	})
}

// keep copies a fresh data directory. Whoever comes first wins.
func keep(data, kept string) {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return
	}
	part, err := os.MkdirTemp(filepath.Dir(kept), "part-*")
	if err != nil {
		return
	}
	defer os.RemoveAll(part)
	if os.CopyFS(filepath.Join(part, "data"), os.DirFS(data)) == nil {
		_ = os.Rename(filepath.Join(part, "data"), kept) // it fails if somebody else was first
	}
}
