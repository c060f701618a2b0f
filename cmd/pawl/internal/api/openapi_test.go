package api

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestTheDocumentNamesEveryRouteAndItsScopes(t *testing.T) {
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Security  []map[string][]string     `json:"security"`
			Responses map[string]map[string]any `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	text := w.call(t, "", "GET", "/openapi.json", nil).body
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	documented := 0
	for pattern, r := range w.handler.routes {
		if r.public {
			continue
		}
		o, ok := doc.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("%s is not in the document", pattern)
			continue
		}
		documented++
		var scopes []string
		for _, s := range o.Security {
			scopes = append(scopes, s["token"]...)
		}
		var want []string
		if len(r.scopes) > 0 {
			want = withAdmin(r.scopes)
		}
		if fmt.Sprint(scopes) != fmt.Sprint(want) {
			t.Errorf("%s: the document wants %v, the route %v", pattern, scopes, want)
		}
		if _, ok := o.Responses["default"]; !ok || len(o.Responses) < 2 {
			t.Errorf("%s: answers %v", pattern, o.Responses)
		}
	}
	if documented < 35 {
		t.Errorf("only %d routes", documented)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
	if strings.Contains(text, "ErrorModel") {
		t.Error("there are two kinds of problems")
	}
}

func TestTheDocumentationPageShowsEveryRouteWithoutScripts(t *testing.T) {
	w := newWorld(t)
	r := w.call(t, "", "GET", "/docs", nil)
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", r.status, r.header.Get("Content-Type"))
	}
	for pattern, route := range w.handler.routes {
		want := fmt.Sprintf(`<h3><code><span class="method">%s</span> %s</code></h3>`, route.method, route.path)
		if !route.public && !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s", pattern)
		}
	}
	for _, foreign := range []string{"<script", "javascript:", " src=", "http-equiv", `href="http`, "@import", "url("} {
		if strings.Contains(r.body, foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(r.body, "<style>"+docsStyle+"</style>") {
		t.Errorf("policy %q", policy)
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(r.body, -1) {
		if !strings.Contains(r.body, `id="`+link[1]+`"`) {
			t.Errorf("the link %s leads nowhere", link[0])
		}
	}
}
