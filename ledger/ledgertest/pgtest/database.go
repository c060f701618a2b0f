package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the environment variable with the URL of a server to use.
const Variable = "PAWL_TEST_POSTGRES"

// shared is the server of this test binary, started when the first test asks.
type shared struct {
	once      sync.Once
	server    *Server
	container *Container
	url       string
	err       error
	count     atomic.Int64
	mu        sync.Mutex
	skipped   []string
	why       error // the first test was skipped; err is of the shared server alone
}

// binary is this test binary's server: TestMain and tests have no other way to share one.
var binary shared

// Main runs the tests of a package, then stops the server that they shared. Its last line names the tests that were skipped for want of
// Postgres.
func Main(m *testing.M) int {
	code := m.Run()
	if binary.server != nil {
		binary.server.Close()
	}
	if binary.container != nil {
		binary.container.close()
	}
	binary.mu.Lock()
	defer binary.mu.Unlock()
	if len(binary.skipped) > 0 {
		fmt.Printf("pgtest: no Postgres (%v); skipped: %s\n", binary.why, strings.Join(binary.skipped, ", "))
	}
	return code
}

func (s *shared) open() {
	if s.url = os.Getenv(Variable); s.url != "" {
		fmt.Println("pgtest: using the server that " + Variable + " names")
		return
	}
	if s.server, s.err = start(nil); s.err != nil {
		found := s.err
		if s.container, s.err = startContainer(); s.err != nil {
			s.err = errors.Join(found, s.err)
			return
		}
		s.url = s.container.url
		fmt.Println("pgtest: started a container of " + s.container.image)
		return
	}
	s.url = s.server.URL("postgres")
	fmt.Println("pgtest: started " + s.server.bin + "/postgres in " + s.server.dir)
}

// Database returns the URL of a fresh database, dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	binary.once.Do(binary.open)
	if binary.err != nil {
		missing(t, binary.err)
	}
	return create(t, binary.url)
}

// Database returns the URL of a fresh database on this server.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return create(t, s.URL("postgres"))
}

func create(t testing.TB, admin string) string {
	t.Helper()
	name := fmt.Sprintf("pawl_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), binary.count.Add(1))
	if err := run(admin, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
		t.Fatalf("create a database for the test (the role needs CREATEDB): %v", err)
	}
	t.Cleanup(func() {
		if err := run(admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Logf("drop the test's database: %v", err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil || u.Scheme == "" {
		t.Fatalf("%s must be a URL, postgres://…", Variable)
	}
	u.Path = "/" + name
	return u.String()
}

func run(admin, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// missing skips the test by name, or fails it in CI.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("Postgres is needed: %v; set %s", err, Variable)
	}
	binary.mu.Lock()
	binary.skipped = append(binary.skipped, t.Name())
	if binary.why == nil {
		binary.why = err
	}
	binary.mu.Unlock()
	t.Skipf("no Postgres: %v; set %s", err, Variable)
}
