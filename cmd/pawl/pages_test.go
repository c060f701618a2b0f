package main_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// shellBlock is a block of shell commands of a page. One that is marked "refused" shows requests that the service refuses.
var shellBlock = regexp.MustCompile("(?ms)^```sh( refused)?\n(.*?)^```")

// wrappers stand in front of the commands of a page: a request that is not answered with 2xx ends the script, and one of a block that is
// marked as refused does if it is.
const wrappers = `set -euo pipefail
pawl() { "$PROGRAM" "$@"; }
curl() {
	local code=0
	command curl --fail-with-body --max-time 60 "$@" || code=$?
	echo
	if [ -n "${refused-}" ]; then [ "$code" -eq 22 ]; else return "$code"; fi
}
`

// curlsOf is the script of a page: its blocks with requests, in order; empty if there is none.
func curlsOf(page, address string) string {
	var script strings.Builder
	for _, m := range shellBlock.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(m[2], "curl ") {
			continue
		}
		refused := ""
		if m[1] != "" {
			refused = "1"
		}
		fmt.Fprintf(&script, "refused=%s\n%s", refused, m[2])
	}
	if script.Len() == 0 {
		return ""
	}
	text := strings.NewReplacer("go run ./cmd/pawl ", "pawl ", "./pawl ", "pawl ", "127.0.0.1:7240", address, "localhost:7240", address).Replace(script.String())
	return wrappers + text
}

// TestEveryCurlOfThePagesWorks runs them against a service that was started with nothing, as a reader would.
func TestEveryCurlOfThePagesWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts services")
	}
	pages := []string{"../../README.md"}
	more, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, path := range append(pages, more...) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if curlsOf(string(raw), "") == "" {
			continue
		}
		ran++
		t.Run(filepath.Base(path), func(t *testing.T) {
			began := time.Now()
			home, address := serveBare(t)
			out := runPage(t, home, address, curlsOf(string(raw), address))
			t.Logf("%s\n%s", time.Since(began).Round(time.Millisecond), out)
			if filepath.Base(path) == "README.md" {
				firstMinute(t, home, out)
			}
		})
	}
	if ran < 2 { // the README and the API's page, at least
		t.Errorf("%d pages with requests were found", ran)
	}
}

// firstMinute requires of the README what it says.
func firstMinute(t *testing.T, home, out string) {
	t.Helper()
	mails, err := filepath.Glob(filepath.Join(home, "pawl-data", "mailbox", "*.eml"))
	if err != nil || len(mails) != 1 {
		t.Errorf("%d mails arrived (%v)", len(mails), err)
	}
	for _, want := range []string{`"status":"new"`, `"state":"committed"`, "Subject: Hello", "1 verified"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not have %q", want)
		}
	}
}

// serveBare starts the service in an empty folder, and ends it with the test.
func serveBare(t *testing.T) (home, address string) {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir(), ctx: t.Context()}
	s.program = filepath.Join(s.dir, "pawl")
	s.linkProgram()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	home = filepath.Join(s.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	e := &engine{s: s, name: "serve", verb: "serve", api: address, log: filepath.Join(s.dir, "log"), home: home, environ: []string{"PAWL_API_LISTEN=" + address}}
	s.engines = append(s.engines, e)
	e.start()
	t.Cleanup(func() {
		if e.running() {
			e.stopInOrder()
		}
		s.awaitNobody()
		if t.Failed() {
			s.showLogs()
		}
	})
	e.awaitReady()
	return home, address
}

// runPage runs the script in the folder of the service.
func runPage(t *testing.T, home, address, script string) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("curl is missing: install it")
		}
		t.Skip("curl is missing")
	}
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir = home
	c.Env = append(os.Environ(), "PROGRAM="+filepath.Join(filepath.Dir(home), "pawl"), "PAWL_URL=http://"+address)
	if strings.Contains(script, "$PAWL_TOKEN") {
		c.Env = append(c.Env, "PAWL_TOKEN="+newToken(t, home))
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("the page's commands ended with %v:\n%s\n--- the script\n%s", err, out, script)
	}
	return string(out)
}

// newToken makes a token as an operator does.
func newToken(t *testing.T, home string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(home), "pawl"), "tokens", "create", "page", "--scope", "admin", "--quiet")
	c.Dir = home
	secret, err := c.Output()
	if err != nil {
		t.Fatalf("make a token: %v", err)
	}
	return strings.TrimSpace(string(secret))
}

// A request of a page that fails must be seen: this one does.
func TestACurlThatFailsIsSeen(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is missing")
	}
	home, address := serveBare(t)
	for name, page := range map[string]string{
		"a request that is refused":              "```sh\ncurl -s http://127.0.0.1:7240/v1/nothing\n```\n",
		"a request that should be, and is not":   "```sh refused\ncurl -s http://127.0.0.1:7240/readyz\n```\n",
		"a command that fails after the request": "```sh\ncurl -s http://127.0.0.1:7240/readyz\nfalse\n```\n",
	} {
		c := exec.CommandContext(t.Context(), "bash", "-c", curlsOf(page, address))
		c.Dir = home
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("%s passes: %s", name, out)
		}
	}
	if answer, err := http.Get("http://" + address + "/readyz"); err != nil || answer.Body.Close() != nil {
		t.Errorf("the service is gone: %v", err)
	}
}
