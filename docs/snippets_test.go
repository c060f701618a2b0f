package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var space = regexp.MustCompile(`\s+`)

// plain is a text without white space at the ends of lines, and without comments that stand behind code.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if code, _, behind := strings.Cut(line, " //"); behind && strings.TrimSpace(code) != "" {
			line = code
		}
		if line = strings.TrimSpace(space.ReplaceAllString(line, " ")); line != "" {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// TestEveryGoSnippetIsCompiledCode finds each of them, line for line, in a Go file of the project.
func TestEveryGoSnippetIsCompiledCode(t *testing.T) {
	code := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		code[path] = plain(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	snippets := 0
	for path, text := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			language, snippet := strings.TrimSpace(m[1]), m[2]
			switch language {
			case "go":
				snippets++
				found := false
				for _, file := range code {
					found = found || strings.Contains(file, plain(snippet))
				}
				if !found {
					t.Errorf("%s: no Go file holds this:\n%s", path, snippet)
				}
			case "go skeleton": // to be filled in: it need only parse
				if _, err := parser.ParseFile(token.NewFileSet(), "", "package skeleton\n"+snippet, 0); err != nil {
					t.Errorf("%s: %v in:\n%s", path, err, snippet)
				}
			}
		}
	}
	if snippets < 4 {
		t.Errorf("only %d snippets were found", snippets)
	}
}
