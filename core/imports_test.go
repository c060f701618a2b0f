package core_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlworks/pawl/"

// mayImport states, for each folder, which other folders of the project it may import: imports point one way. Folders match by their
// longest prefix.
var mayImport = map[string][]string{
	"canonical":       {},
	"core/channel":    {},
	"fence":           {"core/channel", "canonical"},
	"receipt":         {"core/channel", "canonical"},
	"ledger":          {"canonical", "core/channel", "fence", "receipt"},
	"ledger/postgres": {"canonical", "core/channel", "fence", "receipt", "ledger", "migrations"},
	"ledger/sqlite":   {"canonical", "core/channel", "fence", "receipt", "ledger", "migrations"},
	"core":            {"canonical", "core/channel", "fence", "receipt", "ledger"},
	"core/inbox":      {"canonical", "core/channel", "fence", "receipt", "ledger"},
	"migrations":      {},
	"sdk":             {"core/channel", "sdk"},
	"sdk/host":        {"core/channel", "sdk"},
	"adapters":        {"core/channel", "sdk", "canonical", "adapters"},
	"conformance":     {"core/channel", "sdk", "sdk/host", "conformance"},
}

// neverLinks states what a package must not have among its dependencies, however far away.
var neverLinks = map[string][]string{
	"canonical":    {"golang.org", "github.com/"},
	"core/channel": {"golang.org", "github.com/"},
	"core": {"github.com/jackc/", "modernc.org/", "github.com/hashicorp/go-plugin", module + "adapters", module + "sdk",
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "github.com/prometheus"},
	"sdk": {module + "core/inbox", module + "ledger", "modernc.org/", "github.com/jackc/",
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "github.com/prometheus"},
	"ledger": {"github.com/jackc/", "modernc.org/", module + "sdk", "github.com/hashicorp/go-plugin"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		own := strings.TrimPrefix(p.ImportPath, module)
		if rule, allowed, ok := ruleFor(own); ok {
			for _, i := range p.Imports {
				to, inside := strings.CutPrefix(i, module)
				if !inside || within(to, rule) {
					continue
				}
				if !slices.ContainsFunc(allowed, func(a string) bool { return within(to, a) && !deeper(to, a) }) {
					t.Errorf("%s imports %s, which %s may not", own, to, rule)
				}
			}
		}
		if own == "core" && slices.Contains(p.Imports, "net/http") {
			t.Error("core imports net/http: the engine speaks to channels and a ledger only")
		}
		for _, banned := range neverLinks[own] {
			for _, d := range p.Deps {
				if strings.HasPrefix(d, banned) && !strings.HasPrefix(d, module+"core/channel") && !strings.HasPrefix(d, module+own) && !(own == "canonical" && strings.HasPrefix(d, module)) {
					t.Errorf("%s links %s: it must not have %s among its dependencies", own, d, banned)
				}
			}
		}
	}
}

// ruleFor finds the rule with the longest prefix. Tests' own packages and commands have none.
func ruleFor(own string) (rule string, allowed []string, ok bool) {
	if strings.Contains(own, "test") || strings.HasPrefix(own, "core/crashtest") {
		return "", nil, false
	}
	for r, a := range mayImport {
		if within(own, r) && len(r) > len(rule) {
			rule, allowed, ok = r, a, true
		}
	}
	return rule, allowed, ok
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// deeper reports whether path has a rule of its own below folder: allowing ledger does not allow ledger/postgres.
func deeper(path, folder string) bool {
	rule, _, ok := ruleFor(path)
	return ok && rule != folder && within(rule, folder)
}
