package command

import (
	"bufio"
	"bytes"
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
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"
)

// patience bounds each wait of a script for an engine.
const patience = 60 * time.Second

func TestScripts(t *testing.T) {
	self, digest := testBinary(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SELF", self)
			e.Setenv("SHA256", digest)
			e.Setenv("RUN", "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77")
			e.Setenv("TMPDIR", os.TempDir()) // sockets need a short path
			e.Values[engines{}] = map[string]*engineProcess{}
			e.Defer(func() { stopAll(e.Values[engines{}].(map[string]*engineProcess)) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "fault": fault, "expand": expand, "sql": runSQL, "engine-start": engineStart, "engine-stop": engineStop, "capture": capture, "number": number,
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

type engines struct{}

type engineProcess struct {
	cmd  *exec.Cmd
	log  bytes.Buffer // read after done
	done chan struct{}
}

// engine-start NAME args… runs "pawl engine args…" and returns once it says that it has started.
func engineStart(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.Value(engines{}).(map[string]*engineProcess)
	program, err := exec.LookPath("pawl")
	ts.Check(err)
	e := &engineProcess{cmd: exec.Command(program, append([]string{"engine"}, args[1:]...)...), done: make(chan struct{})}
	e.cmd.Dir = ts.MkAbs(".")
	e.cmd.Env = append(os.Environ(), "SECRET_FOR_ADAPTER="+ts.Getenv("SECRET_FOR_ADAPTER"))
	pipe, err := e.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(e.cmd.Start())
	started := make(chan struct{})
	go func() {
		defer close(e.done)
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			e.log.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "engine.started") {
				close(started)
			}
		}
	}()
	running[args[0]] = e
	select {
	case <-started:
	case <-e.done:
		_ = e.cmd.Wait()
		delete(running, args[0])
		ts.Fatalf("the engine did not start:\n%s", e.log.String())
	case <-time.After(patience):
		ts.Fatalf("the engine did not start in time")
	}
}

// engine-stop NAME stops it in order, wants exit code 0, and leaves its log in NAME.log.
func engineStop(ts *testscript.TestScript, _ bool, args []string) {
	running := ts.Value(engines{}).(map[string]*engineProcess)
	e := running[args[0]]
	delete(running, args[0])
	ts.Check(e.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-e.done:
	case <-time.After(patience):
		_ = e.cmd.Process.Kill()
		<-e.done
		ts.Logf("%s", e.log.String())
		ts.Fatalf("the engine did not stop in time")
	}
	err := e.cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), e.log.Bytes(), 0o600))
	ts.Check(err)
}

func stopAll(running map[string]*engineProcess) {
	for _, e := range running {
		_ = e.cmd.Process.Kill()
		<-e.done
		_ = e.cmd.Wait()
	}
}
