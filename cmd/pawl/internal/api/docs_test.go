package api

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageNamesEveryRouteItsScopesEveryCodeAndEvent(t *testing.T) {
	text := page(t)
	w := newWorld(t)
	for pattern, r := range w.handler.routes {
		scopes := strings.Join(r.scopes, ", ")
		switch {
		case r.public:
			if !strings.Contains(text, "`"+pattern+"`") {
				t.Errorf("docs/api.md lacks %s", pattern)
			}
			continue
		case scopes == "":
			scopes = "any"
		}
		if row := "| `" + pattern + "` | " + scopes + " |"; !strings.Contains(text, row) {
			t.Errorf("docs/api.md lacks the row %s", row)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(text, -1) {
		if _, ok := w.handler.routes[m[1]]; !ok {
			t.Errorf("docs/api.md names %s, which is no route", m[1])
		}
	}
	source, err := os.ReadFile("../../../../sdk/pawlclient/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 15 {
		t.Errorf("only %d codes were found", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(text, "`"+c[1]+"`") {
			t.Errorf("docs/api.md lacks the code %s", c[1])
		}
	}
	for _, event := range []string{EventRequest, EventRequestFailed, EventRequestPanic} {
		if !strings.Contains(text, "`"+event+"`") {
			t.Errorf("docs/api.md lacks the event %s", event)
		}
	}
}

func TestEveryCurlOfThePageWorksInItsOrder(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("curl is missing")
		}
		t.Skip("curl is missing")
	}
	w := newWorld(t)
	token := w.token(t, "admin")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(page(t), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(b[1], "curl") {
			continue
		}
		c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b[1])
		c.Env = append(os.Environ(), "PAWL_TOKEN="+token, "PAWL_URL="+w.server.URL, "no_proxy=127.0.0.1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, b[1], out)
		}
	}
	if n := strings.Count(w.log.text(), EventRequest+" "); n < 12 {
		t.Errorf("the commands made %d requests", n)
	}
}
