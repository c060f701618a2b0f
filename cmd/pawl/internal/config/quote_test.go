package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFaultQuotesAValue puts a secret where each key's value stands, by file and by environment, alone and as a list, a mapping and text
// that YAML takes for something else. A password in the wrong place must not be printed: the place says where it is.
func TestNoFaultQuotesAValue(t *testing.T) {
	const secret = "canary0d5f7c"
	values := map[string]string{
		"text": secret, "a list": "[" + secret + "]", "a mapping": "{" + secret + ": " + secret + "}", "a URL": "postgres://u:" + secret + "@[::1:x/db?password=" + secret,
		"a password with a colon": secret + ": x", "an alias": "*" + secret, "a tag": "!" + secret + " x", "a quote": `"` + secret,
		"a duration": secret + "s", "a number": "0x" + secret, "two lines": "|\n" + strings.Repeat(" ", 20) + secret,
	}
	refused := 0
	check := func(what string, c Config, err error) {
		t.Helper()
		var faults *Error
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%s: %v", what, err)
		}
		if err != nil {
			refused++
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error quotes the value: %s", what, err)
			}
		}
		for _, w := range c.Warnings {
			if strings.Contains(w, secret) {
				t.Errorf("%s: a warning quotes the value: %s", what, w)
			}
		}
	}
	for _, key := range Keys() {
		path := strings.Split(strings.Replace(key, "NAME", "file/a", 1), ".")
		for kind, value := range values {
			var text strings.Builder
			for depth, part := range path {
				text.WriteString(strings.Repeat("  ", depth) + part + ":")
				if depth < len(path)-1 {
					text.WriteString("\n")
				}
			}
			text.WriteString(" " + value + "\n")
			file := filepath.Join(t.TempDir(), "pawl.yaml")
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := LoadWith(file, nil)
			check(key+" as "+kind, c, err)
		}
		file := filepath.Join(t.TempDir(), "pawl.yaml")
		if err := os.WriteFile(file, []byte("channels: {file/a: {adapter: file, policy: {unknown: hold}}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadWith(file, []string{variable(path) + "=" + secret})
		check(key+" by environment", c, err)
	}
	if refused < 4*len(Keys()) {
		t.Errorf("only %d values of %d keys were refused: the test shows little", refused, len(Keys()))
	}
}
