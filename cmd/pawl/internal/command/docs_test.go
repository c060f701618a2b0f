package command

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/cmd/pawl/internal/doctor"
	"github.com/pawlworks/pawl/cmd/pawl/internal/explain"
	"github.com/pawlworks/pawl/cmd/pawl/internal/server"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

var update = flag.Bool("update", false, "write testdata/help.golden anew")

const page = "../../../../docs/cli.md"

// commands returns every command that does something, in order, but for those that cobra brings.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.HasSubCommands() && c.Runnable() || c.Name() == "completion" {
			all = append(all, c)
		}
		if c.Name() == "completion" {
			return
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(New())
	if len(all) < 25 {
		t.Fatalf("only %d commands were found", len(all))
	}
	return all
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageDescribesEveryCommandAndFlag(t *testing.T) {
	sections := map[string]string{}
	for _, part := range strings.Split(readPage(t), "\n### ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[strings.Trim(name, "`")] = body
	}
	shared := map[string]bool{"config": true, "ledger": true, "api": true, "token-file": true, "json": true, "help": true}
	for _, c := range commands(t) {
		body, ok := sections[c.CommandPath()]
		if !ok {
			t.Errorf("docs/cli.md has no section ### `%s`", c.CommandPath())
			continue
		}
		delete(sections, c.CommandPath())
		if c.Name() == "demo" { // its section points to its help
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !shared[f.Name] && !regexp.MustCompile(`--`+regexp.QuoteMeta(f.Name)+`\b`).MatchString(body) {
				t.Errorf("the section of %s says nothing of --%s", c.CommandPath(), f.Name)
			}
		})
		for _, named := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(body, -1) {
			if c.Flags().Lookup(named[1]) == nil && !shared[named[1]] {
				t.Errorf("the section of %s names --%s, which does not exist", c.CommandPath(), named[1])
			}
		}
	}
	for name := range sections {
		if strings.HasPrefix(name, "pawl ") {
			t.Errorf("docs/cli.md describes %s, which does not exist", name)
		}
	}
}

func TestThePageHasEveryExitCode(t *testing.T) {
	text := readPage(t)
	for code, meaning := range ExitCodes() {
		if line := fmt.Sprintf("| %d | %s |", code, meaning); !strings.Contains(text, line) {
			t.Errorf("docs/cli.md lacks the line %s", line)
		}
	}
}

func TestThePageHasEveryKeyOfTheConfiguration(t *testing.T) {
	text := readPage(t)
	for _, key := range config.Keys() {
		short := strings.TrimPrefix(strings.TrimPrefix(key, "channels.NAME."), "policy.")
		if !strings.Contains(text, "`"+short+"`") {
			t.Errorf("docs/cli.md says nothing of `%s` (%s)", short, key)
		}
	}
}

func TestThePageHasEveryFieldOfTheJSON(t *testing.T) {
	text := readPage(t)
	for _, v := range []any{
		pawlclient.Key{}, pawlclient.Intent{}, pawlclient.IntentPage{}, pawlclient.Detail{}, pawlclient.Token{}, pawlclient.LogEntry{},
		pawlclient.LateEvidence{}, pawlclient.Receipt{}, pawlclient.ClaimResult{}, pawlclient.Channel{}, adapterView{},
		pawlclient.ChannelHealth{}, pawlclient.Engine{}, pawlclient.Stats{}, pawlclient.Epoch{}, pawlclient.Pruned{}, pawlclient.APIToken{},
		pawlclient.IssuedAPIToken{}, pawlclient.AuditEntry{}, pawlclient.AuditPage{}, pawlclient.Run{}, explain.Account{}, explain.Event{}, statusView{}, attention{},
		diagnosis{}, doctor.Finding{},
		described{}, keyView{}, resourceView{}, keygenView{}, migrated{}, server.Migration{}, reconciled{}, build{}, verdictView{},
	} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/cli.md says nothing of the field `%s` (%s)", name, typ)
			}
		}
	}
}

func TestEveryHelpTextIsAsReviewed(t *testing.T) {
	const golden = "testdata/help.golden"
	var all strings.Builder
	for _, c := range append([]*cobra.Command{New()}, commands(t)...) {
		if c.Name() == "demo" || c.Name() == "completion" { // not written here
			continue
		}
		path := strings.Fields(c.CommandPath())[1:]
		var out, errs strings.Builder
		if code := Main(append(path, "--help"), Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != ExitDone || errs.Len() > 0 {
			t.Errorf("%s --help: exit code %d, errors %q", c.CommandPath(), code, errs.String())
		}
		fmt.Fprintf(&all, "======== %s --help\n%s\n", c.CommandPath(), out.String())
	}
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("help texts differ from %s; if they should, run: go test -run %s -update ./cmd/pawl/internal/command", golden, t.Name())
	}
}
