package api

import (
	"os"
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
