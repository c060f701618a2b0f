package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// root is the project's folder.
const root = ".."

// pages returns every Markdown page of the project by its path below root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "pawl-data" || name == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".md") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			own, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found[own] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 15 {
		t.Fatalf("only %d pages were found", len(found))
	}
	return found
}

// page reads one page of this folder.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testName is how the pages name a test: folder.TestFunction, with /case for each level of subtests. "suite/topic/case" is a case of
// the ledgers' common suite, which both backends run.
var testName = regexp.MustCompile("`(?:([a-z0-9/_-]+)\\.)?((?:Test|Fuzz|Example|Benchmark)[A-Z]\\w*|suite)((?:/[^`]+)?)`")

func TestEveryTestThatAPageNamesExists(t *testing.T) {
	named := 0
	for path, text := range pages(t) {
		for n, line := range strings.Split(text, "\n") {
			for _, m := range testName.FindAllStringSubmatch(line, -1) {
				folder, function, cases := m[1], m[2], strings.TrimPrefix(m[3], "/")
				named++
				if why := missing(t, folder, function, cases); why != "" {
					t.Errorf("%s:%d: %s: %s", path, n+1, m[0], why)
				}
			}
		}
	}
	if named < 150 {
		t.Errorf("the pages name %d tests: the pattern misses some", named)
	}
}

// missing says what of a test's name is not there.
func missing(t *testing.T, folder, function, cases string) string {
	if function == "suite" {
		topic, name, ok := strings.Cut(cases, "/")
		if !ok || folder != "" {
			return "a case of the suite is named suite/topic/case"
		}
		for _, text := range sources(t, "ledger/ledgertest", ".go") {
			if strings.Contains(text, `topic{`+strconv.Quote(topic)+`,`) && strings.Contains(text, `{name: `+strconv.Quote(name)+`,`) {
				return ""
			}
		}
		return "no such topic and case in ledger/ledgertest"
	}
	if folder == "" {
		return "the package's folder is missing"
	}
	texts := sources(t, folder, "_test.go")
	inside := ""
	for _, text := range texts {
		if regexp.MustCompile(`(?m)^func ` + function + `\(`).MatchString(text) {
			inside = text
		}
	}
	if inside == "" {
		return "there is no such function"
	}
	if cases == "" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(root, folder, "testdata", "script", cases+".txtar")); err == nil {
		return ""
	}
	body := functionText(t, inside, function)
	for c := range strings.SplitSeq(cases, "/") {
		if !strings.Contains(body, strconv.Quote(c)) {
			return "the function has no case " + strconv.Quote(c)
		}
	}
	return ""
}

// functionText is the source of one function.
func functionText(t *testing.T, source, name string) string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Recv == nil {
			return source[files.Position(fn.Pos()).Offset:files.Position(fn.End()).Offset]
		}
	}
	return ""
}

// sources are the files of one folder with this ending.
func sources(t *testing.T, folder, ending string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*"+ending))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestBothBackendsRunTheSuiteThatThePagesName(t *testing.T) {
	for folder, function := range map[string]string{"ledger/postgres": "TestLedger", "ledger/sqlite": "TestLedgerSuite"} {
		found := false
		for _, text := range sources(t, folder, "_test.go") {
			found = found || strings.Contains(functionText(t, text, function), "ledgertest.Run(")
		}
		if !found {
			t.Errorf("%s: %s does not run the suite", folder, function)
		}
	}
}

// TestEveryKindOfFailureHasItsRow wants a test or a reason for each.
func TestEveryKindOfFailureHasItsRow(t *testing.T) {
	rows := map[int]string{}
	for line := range strings.Lines(page(t, "failure-kinds.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 5 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue
		}
		if _, twice := rows[n]; twice {
			t.Errorf("kind %d has two rows", n)
		}
		rows[n] = strings.TrimSpace(cells[3])
	}
	for n := 1; n <= 65; n++ {
		if n > 40 && n < 51 {
			continue
		}
		shown, there := rows[n]
		switch {
		case !there:
			t.Errorf("kind %d has no row", n)
		case !testName.MatchString(shown) && !strings.HasPrefix(shown, "not yet:"):
			t.Errorf("kind %d names no test and does not say why: %q", n, shown)
		}
	}
}

// foreign is what no page may hold: paths of whoever wrote it.
var foreign = regexp.MustCompile(`/(home|root|mnt|srv)/|/tmp/[a-z]`)

func TestNoPageHoldsAPathOfTheMachineItWasWrittenOn(t *testing.T) {
	for path, text := range pages(t) {
		for n, line := range strings.Split(text, "\n") {
			if m := foreign.FindString(line); m != "" {
				t.Errorf("%s:%d: holds %q", path, n+1, m)
			}
		}
	}
}
