package pgtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTime bounds initdb and start on a busy machine.
	startTime = 60 * time.Second
	// pollTime is how often a starting server is asked whether it answers.
	pollTime   = 20 * time.Millisecond
	superuser  = "postgres"
	dirPattern = "pawl-pgtest-*"
)

// errNone says that there are no server programs on this machine.
var errNone = errors.New("no Postgres server programs in PATH or /usr/lib/postgresql")

// Server is a Postgres that this process started. Its methods are not safe for concurrent use.
type Server struct {
	bin, dir string
	port     int
	owner    *syscall.Credential // nil: as we are
	extra    []string
	process  *process
}

// NewServer starts a server of the test's own, stopped at its end. Each setting is name=value, as on the server's command line.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

// start makes a data directory and starts a server on it.
func start(settings []string) (_ *Server, err error) {
	s := &Server{extra: settings}
	if s.bin, err = programs(); err != nil {
		return nil, err
	}
	if s.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	sweep()
	if s.dir, err = os.MkdirTemp("", dirPattern); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.owner != nil {
		if err := os.Chown(s.dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, fmt.Errorf("give directory away: %w", err)
		}
	}
	if err := s.initialise(); err != nil {
		return nil, err
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	return s, s.Start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command prepares a server program, as the unprivileged user, that dies with us.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return c
}

// Start starts a stopped server and waits until it answers.
func (s *Server) Start() error {
	args := []string{
		"-D", s.data(), "-k", s.dir, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
		"-c", "max_wal_size=2GB", "-c", "checkpoint_timeout=1h", "-c", "autovacuum_naptime=10s", "-c", "log_min_messages=fatal",
		"-c", "jit=off", "-c", "max_prepared_transactions=10",
	}
	for _, e := range s.extra {
		args = append(args, "-c", e)
	}
	p, err := launch(s.command("postgres", args...), filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.process = p
	return s.await()
}

func (s *Server) await() error {
	if err := s.process.await(s.URL("postgres")); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// URL names a database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: s.Address(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Address is host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill ends the server as a crash would: nothing is flushed, connections break. It waits until every process of it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server in order: sessions are ended, everything is flushed.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

func (s *Server) end(how syscall.Signal) {
	if s.process == nil {
		return
	}
	family := []int{s.process.pid}
	if how == syscall.SIGKILL {
		// Its children are in sessions of their own, outlive it for a moment, may commit in it, and hold its shared memory. They are
		// counted while it stands still and makes no others.
		_ = syscall.Kill(s.process.pid, syscall.SIGSTOP)
		family = append(family, childrenOf(s.process.pid)...)
	}
	for _, pid := range family {
		_ = syscall.Kill(pid, how)
	}
	<-s.process.exited
	for _, pid := range family[1:] {
		for alive(pid) {
			time.Sleep(time.Millisecond) // nothing tells when a process that is not our child has ended
		}
	}
	s.process = nil
}

// Restart kills the server and starts it again: it recovers from its log.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// Standby stops the server in order and starts it as a standby (it then takes no writes), or as a primary again.
func (s *Server) Standby(t testing.TB, standby bool) {
	t.Helper()
	s.Stop()
	signal := filepath.Join(s.data(), "standby.signal")
	err := os.Remove(signal)
	if standby {
		err = os.WriteFile(signal, nil, 0o644) // the server reads it as another user
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server and removes its files.
func (s *Server) Close() {
	s.end(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir) // what is left is swept at the next start
}

// programs returns the folder of the newest server programs.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if _, err := os.Stat(filepath.Join(filepath.Dir(real), "initdb")); err == nil {
				return filepath.Dir(real), nil
			}
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errNone
	}
	sort.Slice(found, func(a, b int) bool { return version(found[a]) < version(found[b]) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// unprivileged is whom the server runs as: it refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read user id: %w", err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read group id: %w", err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("we are root, which Postgres refuses, and there is no user postgres or nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// sweep removes what test binaries left that were killed. A directory is in use while its postmaster lives.
func sweep() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPattern))
	for _, dir := range old {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < 10*time.Minute {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
		if err == nil {
			first, _, _ := strings.Cut(string(raw), "\n")
			if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && syscall.Kill(pid, 0) != syscall.ESRCH {
				continue
			}
		}
		_ = os.RemoveAll(dir)
	}
}
