package pgtest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// victim makes the test binary start a server, say its address, and wait to be killed.
const victim = "PGTEST_VICTIM"

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	for range 2 {
		conn, err := pgx.Connect(t.Context(), pgtest.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine ()"); err != nil {
			t.Error(err)
		}
		_ = conn.Close(t.Context())
	}
}

func TestWhatWasCommittedOutlivesAKill(t *testing.T) {
	s := pgtest.NewServer(t)
	url := s.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	s.Restart(t)
	if conn, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
		t.Errorf("after the kill: %d, %v", n, err)
	}
}

func TestServerEndsWithAKilledTestBinary(t *testing.T) {
	if os.Getenv(victim) != "" {
		s := pgtest.NewServer(t)
		fmt.Println("address " + s.Address())
		select {}
	}
	pgtest.NewServer(t) // skips where there is none
	c := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithAKilledTestBinary$", "-test.v")
	c.Env = append(os.Environ(), victim+"=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if _, after, ok := strings.Cut(lines.Text(), "address "); ok {
			address = after
		}
	}
	_ = c.Process.Signal(syscall.SIGKILL)
	_ = c.Wait()
	if address == "" {
		t.Fatal("the victim started no server")
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // nobody tells us when another process's server has ended
		conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+address+"/postgres?sslmode=disable")
		if err != nil && strings.Contains(err.Error(), "refused") {
			return
		}
		if err == nil {
			_ = conn.Close(t.Context())
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the server outlived its test binary")
		}
	}
}
