package command

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

// patience bounds each wait of a script for an engine.
const patience = 60 * time.Second

func TestScripts(t *testing.T) { runScripts(t, "testdata/script", nil) }

func TestScriptsOnPostgres(t *testing.T) {
	runScripts(t, "testdata/postgres", map[string]string{"PG": pgtest.Database(t)})
}

func runScripts(t *testing.T, dir string, more map[string]string) {
	self, digest := testBinary(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SELF", self)
			e.Setenv("SHA256", digest)
			e.Setenv("RUN", "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77")
			e.Setenv("TMPDIR", os.TempDir()) // sockets need a short path
			for name, value := range more {
				e.Setenv(name, value)
			}
			e.Values[engines{}] = map[string]*engineProcess{}
			e.Defer(func() { stopAll(e.Values[engines{}].(map[string]*engineProcess)) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "fault": fault, "expand": expand, "sql": runSQL, "capture": capture, "number": number, "await": await,
			"engine-start": engineStart, "engine-stop": engineStop, "engine-signal": engineSignal, "serve-start": serveStart,
		},
	})
}

func testBinary(t *testing.T) (path, digest string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return self, hex.EncodeToString(h.Sum(nil))
}

// code N program args… runs a program and wants its exit code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// fault N text program args… wants the exit code, nothing on standard output, and exactly one line on standard error: "pawl: " and
// something that holds the text.
func fault(ts *testscript.TestScript, _ bool, args []string) {
	code(ts, false, append([]string{args[0]}, args[2:]...))
	stderr := ts.ReadFile("stderr")
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "pawl: ") || !strings.Contains(stderr, args[1]) {
		ts.Fatalf("standard error is not one line with %q", args[1])
	}
	if stdout := ts.ReadFile("stdout"); stdout != "" {
		ts.Fatalf("there is something on standard output: %s", stdout)
	}
}

// expand file… replaces $NAME in files; $$ is a $.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		ts.Check(os.WriteFile(path, []byte(os.Expand(ts.ReadFile(name), func(variable string) string {
			if variable == "$" {
				return "$"
			}
			return ts.Getenv(variable)
		})), 0o600))
	}
}

// capture NAME keeps the last standard output, without its line end, in a variable.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// number KEY puts the fence number that a person is shown into NUMBER.
func number(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("pawl", "intents", "show", ts.Getenv("RUN"), args[0], "--json"))
	var shown struct {
		Intent struct {
			FenceNumber int64 `json:"fence_number"`
		} `json:"intent"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown))
	ts.Setenv("NUMBER", strconv.FormatInt(shown.Intent.FenceNumber, 10))
}

// sql file statement runs a statement on a ledger behind the program's back.
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// await FILE TEXT waits until a file that another process writes holds a text.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for give := time.Now().Add(patience); time.Now().Before(give); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(text), args[1]) {
			return
		}
	}
	ts.Fatalf("%s does not come to hold %q", args[0], args[1])
}
