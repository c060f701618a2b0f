package pgtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// poolerPattern names the directories of poolers.
const poolerPattern = "pawl-pgbouncer-*"

// PoolerStatements is the setting with which a pooler follows prepared statements. Older ones cannot, and do not know it.
const PoolerStatements = "max_prepared_statements"

// Pooler starts a PgBouncer before the server of a database and returns the database's URL through it. It pools transactions, over
// four connections of the server, and follows no prepared statement, unless a setting (name=value) says otherwise. It runs as a user
// without rights, in a directory of its own, and ends with the test. Where the program is missing the test is skipped by name; with
// CI=true it fails.
func Pooler(t testing.TB, database string, settings ...string) string {
	t.Helper()
	through, stop, err := startPooler(database, settings)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(stop)
	return through
}

// PoolerFollowsStatements reports whether the pooler on this machine can follow prepared statements (1.21 and newer).
func PoolerFollowsStatements() bool {
	program, err := poolerProgram()
	if err != nil {
		return false
	}
	out, _ := exec.Command(program, "--version").Output()
	m := regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`).FindSubmatch(out)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	return major > 1 || minor >= 21
}

func poolerProgram() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const debian = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(debian); err != nil {
		return "", errors.New("no pgbouncer in PATH or /usr/sbin")
	}
	return debian, nil
}

func startPooler(database string, settings []string) (through string, stop func(), err error) {
	program, err := poolerProgram()
	if err != nil {
		return "", nil, err
	}
	behind, err := url.Parse(database)
	if err != nil || behind.Hostname() == "" {
		return "", nil, errors.New("the database's URL names no host")
	}
	owner, err := unprivileged()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", poolerPattern)
	if err != nil {
		return "", nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	if err := writePooler(dir, behind, port, settings); err != nil {
		return "", nil, err
	}
	if owner != nil {
		for _, path := range []string{dir, filepath.Join(dir, "pooler.ini"), filepath.Join(dir, "users")} {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				return "", nil, fmt.Errorf("give directory away: %w", err)
			}
		}
	}
	c := exec.Command(program, "--quiet", filepath.Join(dir, "pooler.ini"))
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	p, err := launch(c, filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	end := func() {
		_ = syscall.Kill(p.pid, syscall.SIGQUIT) // at once: what is under way is cut
		<-p.exited
	}
	front := *behind
	front.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := p.await(front.String()); err != nil {
		end()
		return "", nil, fmt.Errorf("pgbouncer: %w", err)
	}
	return front.String(), func() { end(); _ = os.RemoveAll(dir) }, nil
}

// writePooler writes the pooler's files. The later of two settings counts.
func writePooler(dir string, behind *url.URL, port int, settings []string) error {
	host, serverPort := behind.Hostname(), behind.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s", host, serverPort),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + filepath.Join(dir, "users"),
		"pool_mode = transaction", "default_pool_size = 4", "max_client_conn = 500", "log_connections = 0", "log_disconnections = 0",
	}
	if PoolerFollowsStatements() {
		lines = append(lines, PoolerStatements+" = 0")
	}
	lines = append(lines, settings...)
	if err := os.WriteFile(filepath.Join(dir, "pooler.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	password, _ := behind.User.Password()
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	users := quote(behind.User.Username()) + " " + quote(password) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600); err != nil {
		return fmt.Errorf("write users: %w", err)
	}
	return nil
}
