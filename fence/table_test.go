package fence_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/fence"
)

func goodTable(change ...func(*fence.Table)) fence.Table {
	t := fence.Table{Name: "jobs", RunID: "id", Owner: "worker", Number: "token", ExpiresAt: "leased_until"}
	for _, c := range change {
		c(&t)
	}
	return t
}

func TestMappingThatCannotBeRightNamesItsField(t *testing.T) {
	for want, change := range map[string]func(*fence.Table){
		"":           func(*fence.Table) {},
		"name":       func(t *fence.Table) { t.Name = "" },
		"schema":     func(t *fence.Table) { t.Schema = strings.Repeat("s", 64) },
		"run_id":     func(t *fence.Table) { t.RunID = "" },
		"owner":      func(t *fence.Table) { t.Owner = "id" },
		"number":     func(t *fence.Table) { t.Number = "a\x00b" },
		"expires_at": func(t *fence.Table) { t.ExpiresAt = "\xff" },
		"status":     func(t *fence.Table) { t.Live = []string{"running"} },
		"live":       func(t *fence.Table) { t.Status = "state" },
	} {
		_, err := goodTable(change).Normal()
		var wrong *fence.TableError
		switch {
		case want == "" && err != nil:
			t.Errorf("a good mapping: %v", err)
		case want != "" && (!errors.As(err, &wrong) || wrong.Field != want || !strings.Contains(err.Error(), "leases."+want)):
			t.Errorf("%s: got %v", want, err)
		}
	}
	_, err := fence.Table{}.Normal()
	for _, field := range []string{"name", "run_id", "owner", "number", "expires_at"} {
		if err == nil || !strings.Contains(err.Error(), "leases."+field+":") {
			t.Errorf("an empty mapping's error leaves out %s: %v", field, err)
		}
	}
}

func TestNameIsSplitAtItsDotUnlessTheSchemaIsGiven(t *testing.T) {
	for _, c := range []struct{ schema, name, want string }{
		{"", "jobs", `"own"."jobs"`}, {"", "app.jobs", `"app"."jobs"`}, {"app", "jobs", `"app"."jobs"`}, {"app", "odd.jobs", `"app"."odd.jobs"`},
		{`a"b`, `c"; DROP TABLE d; --`, `"a""b"."c""; DROP TABLE d; --"`},
	} {
		m, err := goodTable(func(t *fence.Table) { t.Schema, t.Name = c.schema, c.name }).Normal()
		if got := m.Relation("own"); err != nil || got != c.want {
			t.Errorf("%q, %q: %s, %v; want %s", c.schema, c.name, got, err, c.want)
		}
	}
	if _, err := goodTable(func(t *fence.Table) { t.Name = ".jobs" }).Normal(); err == nil {
		t.Error("an empty schema before a dot was taken")
	}
}

// TestQuotedNameIsOneIdentifier reads what was quoted as SQL does.
func TestQuotedNameIsOneIdentifier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		q := fence.Quote(name)
		inner := q[1 : len(q)-1]
		if q[0] != '"' || q[len(q)-1] != '"' || strings.Contains(strings.ReplaceAll(inner, `""`, ""), `"`) || strings.ReplaceAll(inner, `""`, `"`) != name {
			t.Fatalf("%q is quoted as %s", name, q)
		}
	})
}
