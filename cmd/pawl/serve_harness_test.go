package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// service is pawl serve as a process, in a directory of its own, started again at will.
type service struct {
	*scene
	args   []string
	env    []string
	log    string
	pid    int
	code   int // after exited
	exited chan struct{}
	url    string // of the API
}

// newService makes the directory and puts the program there. At the end of the test nothing of it may run any more.
func newService(t *testing.T) *service {
	t.Helper()
	if testing.Short() {
		t.Skip("services and adapters as processes take a while")
	}
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{scene: &scene{t: t, ctx: context.Background(), dir: dir, program: filepath.Join(dir, "pawl")}, log: filepath.Join(dir, "log")}
	t.Cleanup(func() {
		s.kill()
		s.awaitNobody()
		if t.Failed() {
			text, _ := os.ReadFile(s.log)
			t.Logf("the service's log:\n%s", text)
		}
		_ = os.RemoveAll(dir)
	})
	s.linkProgram()
	return s
}

// initialize writes the configuration to begin with, and gives its mailbox ports that are free now.
func (s *service) initialize() {
	s.t.Helper()
	out, err := s.command("init").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("pawl serve")) {
		s.t.Fatalf("init: %v: %s", err, out)
	}
	path := filepath.Join(s.dir, config.DefaultFile)
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	ports := s.freePorts(2)
	changed := strings.NewReplacer("7241", ports[0], "7242", ports[1]).Replace(string(text))
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) freePorts(n int) (ports []string) {
	s.t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		defer l.Close() // only now, so that no port comes twice
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports
}

func (s *service) command(args ...string) *exec.Cmd {
	c := exec.Command(s.program, args...)
	c.Dir = s.dir
	c.Env = append(append(os.Environ(), "PAWL_API_LISTEN=127.0.0.1:0", "PAWL_ENGINE_POLL_EVERY=50ms", "PAWL_LOG_FORMAT=json"), s.env...)
	return c
}

var apiAt = regexp.MustCompile(`pawl: the API is at (http://[0-9.:]+)/v1`)

// start starts the process, which ends with the test binary, and returns when it is ready.
func (s *service) start() {
	s.t.Helper()
	log, err := os.Create(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	c := s.command(append([]string{"serve"}, s.args...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error, 1)
	// The kernel sends the death signal when the thread that forked ends: this one is kept.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err != nil {
			return
		}
		_ = c.Wait() // how it ended is in its exit code
		s.code = c.ProcessState.ExitCode()
		close(exited)
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.pid, s.exited, s.url = c.Process.Pid, exited, ""
	s.eventually("the service is ready", func() error {
		if !s.running() {
			text, _ := os.ReadFile(s.log)
			s.t.Fatalf("the service ended with code %d: %s", s.code, text)
		}
		text, err := os.ReadFile(s.log)
		if err != nil {
			return err
		}
		at := apiAt.FindSubmatch(text)
		if at == nil {
			return fmt.Errorf("it has not said where its API is")
		}
		s.url = string(at[1])
		status, body := s.ask(http.MethodGet, "/readyz", "")
		if status != http.StatusOK {
			return fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return nil
	})
}

func (s *service) running() bool {
	if s.exited == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

func (s *service) kill() {
	if s.running() {
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
		<-s.exited
	}
}

// stop asks the service to stop, as an operator would, and requires it to do so.
func (s *service) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	s.awaitStopped()
}

func (s *service) awaitStopped() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatal("the service does not end")
	}
	if s.code != 0 {
		s.t.Errorf("the service ended with code %d", s.code)
	}
}

func (s *service) signal(how syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.pid, how); err != nil {
		s.t.Fatal(err)
	}
}

// ask makes one request. Status 0: nobody answered.
func (s *service) ask(method, path, body string) (status int, answer []byte) {
	s.t.Helper()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer r.Body.Close()
	if answer, err = io.ReadAll(r.Body); err != nil {
		return 0, []byte(err.Error())
	}
	return r.StatusCode, answer
}

// get requires an answer and decodes it.
func (s *service) get(path string, into any) {
	s.t.Helper()
	status, body := s.ask(http.MethodGet, path, "")
	if status != http.StatusOK {
		s.t.Fatalf("GET %s answers %d: %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		s.t.Fatalf("GET %s: %v: %s", path, err, body)
	}
}

// claimed claims an effect and requires the status.
func (s *service) claimed(want int, channel, payload string) pawlclient.ClaimResult {
	s.t.Helper()
	status, body := s.ask(http.MethodPost, "/v1/intents", fmt.Sprintf(`{"run_id": %q, "channel": %q, "payload": %s}`, demoRun, channel, payload))
	var result pawlclient.ClaimResult
	if status != want {
		s.t.Fatalf("the claim answers %d, want %d: %s", status, want, body)
	}
	if err := json.Unmarshal(body, &result); err != nil {
		s.t.Fatal(err)
	}
	return result
}

const demoRun = "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77"

func intentPath(k pawlclient.Key) string {
	return "/v1/intents/" + k.RunID + "/" + strings.NewReplacer("/", "%2F", ":", "%3A").Replace(k.EffectKey)
}

// committedBy waits for the end.
func (s *service) committedBy(k pawlclient.Key) pawlclient.Intent {
	s.t.Helper()
	var i pawlclient.Intent
	s.get(intentPath(k)+"/wait?timeout=60s", &i)
	if i.State != pawlclient.StateCommitted {
		s.t.Fatalf("%s is %s: %s", k.EffectKey, i.Outcome, i.LastError)
	}
	return i
}
