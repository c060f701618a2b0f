package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence  = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```")
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	header = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unsaid = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range header.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	links := 0
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
				if _, err := os.Stat(filepath.Join(root, target)); err != nil || strings.HasPrefix(target, "..") {
					t.Errorf("%s: the link to %s leads nowhere", path, m[1])
					continue
				}
			}
			if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s has no heading for #%s", path, target, anchor)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// TestPagesOfThisFolderAreReachedFromTheREADME follows links only.
func TestPagesOfThisFolderAreReachedFromTheREADME(t *testing.T) {
	all := pages(t)
	reached, todo := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		for _, m := range link.FindAllStringSubmatch(all[path], -1) {
			file, _, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(path), file)
			for page := range all { // a link to a folder reaches the pages in it
				if (page == target || filepath.Dir(page) == target) && !reached[page] {
					reached[page] = true
					todo = append(todo, page)
				}
			}
		}
	}
	for path := range all {
		if !reached[path] {
			t.Errorf("%s cannot be reached from README.md", path)
		}
	}
}
